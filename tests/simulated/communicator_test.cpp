// NCCL's rules, which the communicator of the simulated device follows: two ranks in one process.
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "engine/base/errors.h"
#include "tests/simulated/device.h"
#include "tests/support/device.h"
#include "tests/support/simulated_comm.h"

namespace trainer::testing {
namespace {

using simulated::Communicator;

class NcclRules : public ::testing::Test {
 protected:
  c10::intrusive_ptr<Communicator> rank(int r, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    return c10::make_intrusive<Communicator>(store, r, 2, /*device=*/0, timeout);
  }
  static at::Tensor on_device(double value) {
    return at::full({4}, value, at::TensorOptions(device()).dtype(at::kFloat));
  }

  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(NcclRules, TensorsOfTheHostAreRefused) {
  SimulatedComm comm(store, 0, 2, 0);
  const at::Tensor here = at::zeros({4}), there = on_device(0), all = at::zeros({8});
  for (const auto& fails : std::vector<std::function<void()>>{
           [&] { comm.all_reduce(here, dist::Reduce::kSum); }, [&] { comm.all_gather(all, there); },
           [&] { comm.reduce_scatter(all); }, [&] { comm.send(here, 1); }, [&] { comm.receive(here, 1); }}) {
    try {
      fails();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find("Tensors must be CUDA and dense"), std::string::npos) << error.what();
    }
  }
}

TEST_F(NcclRules, AMessageIsSentWhenItIsReceived) {
  const auto one = rank(0), other = rank(1);
  std::vector<at::Tensor> sent{on_device(7)}, received{on_device(0)};
  const auto send = one->send(sent, 1, 0);
  // A collective of the same ranks passes meanwhile: they are connected.
  std::vector<at::Tensor> a{on_device(1)}, b{on_device(2)};
  const auto first = one->allreduce(a, {}), second = other->allreduce(b, {});
  first->wait();
  second->wait();
  EXPECT_FALSE(send->isCompleted());
  other->recv(received, 0, 0)->wait();
  send->wait();
  EXPECT_EQ(received.front().cpu().sum().item<double>(), 28);
}

// Receives first on both ranks: over Gloo the sends, which stand behind them, would pass. (So a pipeline must batch.)
TEST_F(NcclRules, MessagesBetweenTwoRanksAreOneQueue) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exchange = [this] {
    const auto one = rank(0, std::chrono::milliseconds(500)), other = rank(1, std::chrono::milliseconds(500));
    std::vector<at::Tensor> a{on_device(1)}, b{on_device(2)}, c{on_device(3)}, d{on_device(4)};
    std::vector<Communicator::WorkPtr> all;
    all.push_back(one->recv(a, 1, 0));
    all.push_back(other->recv(b, 0, 0));
    all.push_back(one->send(c, 1, 0));
    all.push_back(other->send(d, 0, 0));
    for (const auto& work : all) work->wait();
  };
  EXPECT_EXIT(exchange(), ::testing::KilledBySignal(SIGABRT),
              "Watchdog caught collective operation timeout: WorkNCCL\\(messages between");
}

TEST_F(NcclRules, ADeadPeerIsReportedInSeveralLines) {
  SimulatedComm comm(store, 0, 2, 0);
  at::Tensor values = on_device(1);
  {
    const auto peer = rank(1);
    std::vector<at::Tensor> a{values}, b{on_device(2)};
    const auto first = comm.communicator().allreduce(a, {}), second = peer->allreduce(b, {});
    first->wait();
    second->wait();
  }
  try {
    comm.all_reduce(values, dist::Reduce::kSum);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const PeerError& error) {
    const std::string text = error.what();
    for (const char* const part :
         {"another rank was lost", "NCCL error in:", "ncclRemoteError:", "Last error:", "gloo/transport"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  values.reset();
  EXPECT_NE(simulated::timeline().errors().find("ALLREDUCE"), std::string::npos) << "nothing waited for it";
}

/// A message to a peer that is gone. Its end is never waited for.
class LostMessages : public NcclRules {
 protected:
  void lose(bool abort) {
    const auto one = rank(0);
    {
      const auto other = rank(1);
      std::vector<at::Tensor> a{on_device(1)}, b{on_device(0)};
      const auto sent = one->send(a, 1, 0), received = other->recv(b, 0, 0);
      sent->wait();
      received->wait();
    }
    std::vector<at::Tensor> c{on_device(2)};
    const auto lost = one->send(c, 1, 0);
    if (abort) one->abort();
    std::this_thread::sleep_for(std::chrono::seconds(abort ? 4 : 600));
    std::_Exit(0);
  }
};

TEST_F(LostMessages, EndTheRank) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose(/*abort=*/false), ::testing::KilledBySignal(SIGABRT),
              "Process group watchdog thread terminated with exception: NCCL error in:");
}

TEST_F(LostMessages, DoNotEndARankThatHasAborted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose(/*abort=*/true), ::testing::ExitedWithCode(0), "");
}

TEST_F(NcclRules, TheBoundDeviceSurvivesTheGroup) {
  const auto backend = rank(0);
  const at::Device bound(simulated::kType, 0);
  backend->setBoundDeviceId(bound);
  struct Comm : dist::BackendComm {
    using BackendComm::BackendComm;
    std::unique_ptr<dist::Comm> make_group(const std::string&, const std::vector<int>&, int) override {
      return nullptr;
    }
  } comm(backend, c10d::ProcessGroup::BackendType::NCCL, {simulated::kType}, false);
  EXPECT_EQ(backend->getBoundDeviceId(), bound);
  EXPECT_EQ(comm.process_group().getBoundDeviceId(), bound);
}

}  // namespace
}  // namespace trainer::testing
