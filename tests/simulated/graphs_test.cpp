// What the simulated device records and what it refuses: CUDA's rules (Note [Recorded graphs]).
#include "tests/simulated/graphs.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/dist/side_stream.h"
#include "models/nn/device/attention_choice.h"
#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

at::TensorOptions there(at::ScalarType dtype = at::kFloat) {
  return at::TensorOptions(device()).dtype(dtype);
}

c10::Stream current_stream() {
  return c10::impl::VirtualGuardImpl(device().type()).getStream(device());
}

class Graphs : public ::testing::Test {
 protected:
  std::unique_ptr<dist::Graph> record(const std::function<void()>& work) {
    std::unique_ptr<dist::Graph> graph;
    stream_.run([&] { graph = recorder_->record(work); }).order_current_stream();
    return graph;
  }
  /// The error of recording `work`; "": it is recorded.
  std::string refusal(const std::function<void()>& work) {
    try {
      record(work);
      return "";
    } catch (const std::exception& error) {
      const std::string text = error.what();
      return text.substr(0, text.find('\n'));
    }
  }

  dist::SideStream stream_{device()};
  std::unique_ptr<dist::GraphRecorder> recorder_ = simulated::graph_recorder();
};

TEST_F(Graphs, RepeatOperatorsOnTheValuesOfTheMoment) {
  const at::Tensor x = at::ones({2, 2}, there()), sum = at::zeros({2, 2}, there());
  const auto graph = record([&] {
    const at::Tensor product = at::mm(x, x);  // in the graph's memory
    sum.add_(product * 2);
  });
  EXPECT_EQ(sum.cpu().sum().item<double>(), 0) << "a recording has no effect";
  for (const double value : {1.0, 3.0}) {
    x.fill_(value);
    sum.zero_();
    graph->replay();
    graph->replay();
    EXPECT_EQ(sum.cpu()[0][0].item<double>(), 2 * 2 * 2 * value * value);
  }
}

TEST_F(Graphs, RecordBackwardIntoGradientsThatExist) {
  const at::Tensor w = at::full({3}, 2.0, there()).set_requires_grad(true), x = at::ones({3}, there());
  w.mutable_grad() = at::zeros({3}, there());
  const auto graph = record([&] { torch::autograd::backward({(w * w * x).sum()}, {}); });
  x.fill_(5);
  graph->replay();
  graph->replay();
  EXPECT_EQ(w.grad().cpu()[1].item<double>(), 2 * (2 * 2.0 * 5));
}

// Such as arange's: an empty one, which the operator resizes.
TEST_F(Graphs, RepeatOperatorsThatResizeTheirResult) {
  const at::Tensor x = at::zeros({4}, there());
  const auto graph = record([&] { x.add_(at::arange(4, there())); });
  graph->replay();
  graph->replay();
  EXPECT_EQ(x.cpu()[3].item<double>(), 6);
}

TEST_F(Graphs, AreOneLaunch) {
  const at::Tensor x = at::ones({4}, there());
  const int64_t before = simulated::counters().launches;
  const auto graph = record([&] {
    for (int i = 0; i < 10; ++i) x.add_(1);
  });
  EXPECT_EQ(simulated::counters().launches, before) << "nothing runs while it is recorded";
  graph->replay();
  EXPECT_EQ(simulated::counters().launches, before + 1);
  EXPECT_EQ(x.cpu()[0].item<double>(), 11);
}

TEST_F(Graphs, ShareTheMemoryOfTheirOperators) {
  const at::Tensor x = at::ones({1000}, there());
  const auto work = [&] { x.add_((x * 2 + 1).exp()); };
  const auto one = record(work);
  const int64_t held = simulated::held_bytes(0);
  const auto other = record(work);
  EXPECT_EQ(simulated::held_bytes(0), held);
}

TEST_F(Graphs, ReturnTheirMemory) {
  const at::Tensor x = at::ones({1000}, there());
  const int64_t before = simulated::held_bytes(0);
  auto graph = record([&] { x.add_(x * 2); });
  graph->replay();
  EXPECT_GT(simulated::held_bytes(0), before);
  graph.reset();
  recorder_.reset();
  EXPECT_EQ(simulated::held_bytes(0), before);
}

TEST_F(Graphs, RefuseWhatCudaRefuses) {
  const at::Tensor x = at::ones({2}, there()), here = at::ones({2}),
                   pinned = at::empty({2}, at::TensorOptions().pinned_memory(true));
  const auto expect_refused = [&](const char* what, const std::function<void()>& work) {
    const std::string why = refusal(work);
    EXPECT_NE(why.find("operation not permitted when stream is capturing"), std::string::npos) << what << ": " << why;
    EXPECT_NE(why.find(what), std::string::npos) << why;
  };
  expect_refused("aten::_local_scalar_dense", [&] { x.sum().item<double>(); });
  expect_refused("aten::nonzero", [&] { x.nonzero(); });
  expect_refused("a copy to the host", [&] { x.cpu(); });
  expect_refused("a copy to the host", [&] { pinned.copy_(x, /*non_blocking=*/true); });
  expect_refused("a copy from unpinned memory", [&] { x.copy_(here, /*non_blocking=*/true); });
  expect_refused("a copy from unpinned memory", [&] { x.copy_(pinned); });
  expect_refused("a wait of the host", [&] { dist::Moment(current_stream()).wait(); });
  expect_refused("a new seed", [&] {
    at::Generator generator = simulated::default_generator(0);
    generator.set_current_seed(3);
  });
  expect_refused("an event of another one", [&] { dist::SideStream(device()).run([&] { x.add_(1); }); });
  expect_refused("a second recording", [&] { recorder_->record([] {}); });
  EXPECT_EQ(x.cpu().sum().item<double>(), 2) << "nothing has run";
  EXPECT_EQ(refusal([&] { x.add_(1); }), "") << "the device is as before";
}

TEST_F(Graphs, AreRecordedOnAStreamOfTheirOwn) {
  EXPECT_THROW(recorder_->record([] {}), std::exception);
}

TEST_F(Graphs, NeedTheMemoryThatTheyUse) {
  auto gone = std::make_unique<at::Tensor>(at::ones({2}, there()));
  const at::Tensor x = at::zeros({2}, there());
  const auto graph = record([&] { x.add_(*gone); });
  graph->replay();
  gone.reset();
  EXPECT_THROW(graph->replay(), std::exception);
}

TEST_F(Graphs, CopyAgainFromPinnedMemory) {
  const at::Tensor x = at::zeros({2}, there());
  auto from = std::make_unique<at::Tensor>(at::empty({2}, at::TensorOptions().pinned_memory(true)));
  from->fill_(7);
  const auto graph = record([&] { x.copy_(*from, /*non_blocking=*/true); });
  graph->replay();
  EXPECT_EQ(x.cpu()[0].item<double>(), 7);
  from.reset();
  EXPECT_THROW(graph->replay(), std::exception);
}

// The addresses of what was computed within a graph hold nothing that a reader could take for its result.
TEST_F(Graphs, LeaveNothingInTheirMemoryBeforeAReplay) {
  const at::Tensor x = at::ones({2}, there());
  at::Tensor inside;
  const auto graph = record([&] { inside = x * 3; });
  EXPECT_TRUE(inside.cpu().isnan().all().item<bool>());
  graph->replay();
  EXPECT_EQ(inside.cpu()[0].item<double>(), 3);
}

}  // namespace
}  // namespace trainer::testing
