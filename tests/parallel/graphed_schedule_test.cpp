// Graphs of micro-batches on the simulated device: what the host launches, and that results stay the same.
#include <gtest/gtest.h>

#include "engine/dist/device_comm.h"
#include "engine/train/build.h"
#include "engine/train/parallelism.h"
#include "tests/parallel/device_setting.h"
#include "tests/parallel/processes.h"
#include "tests/simulated/graphs.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

const Family kGpt2WithoutAttentionDropout{
    "GPT-2", config::Task::kCausalLm,
    R"({"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
        "attn_pdrop": 0.0})"};

std::unique_ptr<parallel::ParallelModel> made(const Setting& s, dist::Comm& comm, bool graphs) {
  const config::Plan plan = plan_of(s);
  train::Blueprint blueprint = train::make_blueprint(plan);
  parallel::Parallelism how = train::parallelism_of(plan);
  if (graphs) how.graphs = [](at::Device) { return simulated::graph_recorder(); };
  return parallel::parallelize(std::move(blueprint.model), std::make_shared<dist::Mesh>(comm, train::degrees_of(plan)),
                               std::move(how), blueprint.source());
}

/// Samples of these lengths with tokens and labels of their own, numbered from `first` in the run. The first token of
/// each is not learned.
models::Batch batch_of(const Lengths& lengths, int64_t first) {
  std::vector<std::vector<int64_t>> sources, labels;
  for (const int64_t length : lengths) {
    sources.emplace_back(), labels.emplace_back();
    for (int64_t i = 0; i < length; ++i) {
      sources.back().push_back((first * 31 + i * 7 + length) % 512);
      labels.back().push_back(i == 0 ? -100 : (first * 17 + i * 5) % 512);
    }
    ++first;
  }
  models::Batch batch = make_batch(sources, labels, first);
  batch.target = batch.source;
  return batch;
}

constexpr int kUpdatesOfRun = 6;
struct Update {
  double loss = 0, norm = 0;
  int64_t launches = 0, synchronizations = 0;  // of forward, backward and the read
};
using Updates = std::array<Update, kUpdatesOfRun>;

/// Updates of one micro-batch for each of `shapes`.
Updates updates_of(const Setting& s, const std::vector<Lengths>& shapes, bool graphs) {
  return in_processes<Updates>(1, /*share_memory=*/false,
                               [&](dist::Comm& host, const std::string&) {
                                 const auto comm = dist::device_comm(host.group("device", {0}), nullptr, device());
                                 const auto model = made(s, *comm, graphs);
                                 const auto optimizer =
                                     optim::make_optimizer(plan_of(s).config.training, model->logical_tensors(), *comm);
                                 nn::Pass pass;
                                 pass.training = true;
                                 pass.seed = 11;
                                 Updates found;
                                 int64_t first = 0;
                                 for (Update& update : found) {
                                   std::vector<models::Batch> batches;
                                   for (const Lengths& lengths : shapes)
                                     batches.push_back(batch_of(lengths, first += std::ssize(lengths)));
                                   const simulated::Counters before = simulated::counters();
                                   update.loss = model->update(batches, 40 + first, pass);  // the divisor changes too
                                   const simulated::Counters after = simulated::counters();
                                   update.launches = after.launches - before.launches;
                                   update.synchronizations = after.synchronizations - before.synchronizations;
                                   update.norm = model->clip_grad_norm(1.0);
                                   optimizer->step(model->logical_tensors(), 1e-2);
                                   model->zero_grad();
                                 }
                                 return found;
                               })
      .front();
}

class GraphedSchedule : public ::testing::Test {
 protected:
  /// Returns the runs without and with graphs.
  static std::pair<Updates, Updates> expect_same(const Setting& s, const std::vector<Lengths>& shapes) {
    const Updates without = updates_of(s, shapes, false), with = updates_of(s, shapes, true);
    for (int i = 0; i < kUpdatesOfRun; ++i) {
      EXPECT_GT(without[i].norm, 0) << i;
      EXPECT_EQ(with[i].loss, without[i].loss) << s.name() << ", update " << i;
      EXPECT_EQ(with[i].norm, without[i].norm) << s.name() << ", update " << i;
      EXPECT_LE(with[i].synchronizations, i == 0 ? 2 : 1) << "giving up takes one";
    }
    return {without, with};
  }
};

// Both micro-batches of an update have the same shape: the first one is new, the second one a rehearsal, and the third
// one is recorded. A replay is one launch, and at most five copies of what changes.
TEST_F(GraphedSchedule, LaunchesAMicroBatchAtOnce) {
  for (const bool bf16 : {false, true})
    for (const bool lora : {false, true})
      for (const bool recompute : {false, true}) {
        const Setting s{kGpt2WithoutAttentionDropout, kNo, lora, recompute, bf16, {16, 16}};
        const auto [without, with] = expect_same(s, {{16, 16}, {16, 16}});
        EXPECT_GT(with[0].launches, 100);
        EXPECT_LT(with[0].launches, without[0].launches + 20);
        for (int i = 1; i < kUpdatesOfRun; ++i) EXPECT_EQ(with[i].launches, with[1].launches) << i;
        // Besides: the losses and their gradient, the norm, and the read.
        EXPECT_EQ(with[1].launches, 20) << s.name();
        std::printf("| %s | %ld | %ld |\n", s.name().c_str(), without[1].launches, with[1].launches);
      }
}

TEST_F(GraphedSchedule, RunsOtherShapesAsUsual) {
  const Setting s{kGpt2WithoutAttentionDropout};
  const auto [without, with] = expect_same(s, {{16, 16}, {9, 30, 4}, {16, 16}});
  EXPECT_LE(with[kUpdatesOfRun - 1].launches, 3 * 6 + 12) << "two shapes are repeated";
}

// The other two run as usual.
TEST_F(GraphedSchedule, RepeatsEightShapes) {
  const Setting s{kGpt2WithoutAttentionDropout};
  std::vector<Lengths> shapes;
  for (int64_t length = 8; length < 18; ++length) shapes.push_back({length});
  const auto [without, with] = expect_same(s, shapes);
  EXPECT_GT(with[kUpdatesOfRun - 1].launches, without[kUpdatesOfRun - 1].launches / 10 * 2);
  EXPECT_LT(with[kUpdatesOfRun - 1].launches, without[kUpdatesOfRun - 1].launches / 10 * 3);
}

// Its seeds come from the host.
TEST_F(GraphedSchedule, GivesUpForDropoutWithinLibtorchsAttention) {
  Setting s{kGpt2};
  s.bf16 = true;
  const auto [without, with] = expect_same(s, {{16, 16}, {16, 16}});
  EXPECT_GT(with[kUpdatesOfRun - 1].launches, without[kUpdatesOfRun - 1].launches / 2);
}

}  // namespace
}  // namespace trainer::testing
