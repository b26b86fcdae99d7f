// Communication in shared memory between processes: what happens when one of them is lost, late, or calls something else.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "engine/base/errors.h"
#include "engine/dist/bucket_reducer.h"
#include "engine/dist/shm_comm.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using std::chrono::seconds;

constexpr const char* kCannotShare = "the ranks cannot share memory";

/// Runs `body` on `ranks` processes. Returns what each of them threw; "" if it ended well, "killed" if by a signal.
std::vector<std::string> outcomes(int ranks, const std::function<void(dist::Comm&)>& body, seconds timeout = seconds(60)) {
  const TemporaryFolder folder;
  const auto file = [&](int rank) { return folder.path() / std::to_string(rank); };
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    at::set_num_threads(1);  // a forked process has none of OpenMP's others
    std::string text;
    try {
      const auto store = c10::make_intrusive<c10d::FileStore>((folder.path() / "store").string(), ranks);
      const auto comm = dist::shm_comm(store, rank, ranks, timeout);
      if (comm == nullptr) throw std::runtime_error(kCannotShare);
      body(*comm);
    } catch (const PeerError& error) {
      text = std::string("PeerError: ") + error.what();
    } catch (const std::exception& error) {
      text = std::string("another error: ") + error.what();
    }
    std::ofstream(file(rank)) << text;
    _exit(0);
  }
  std::vector<std::string> all;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    EXPECT_EQ(waitpid(children[static_cast<size_t>(rank)], &status, 0), children[static_cast<size_t>(rank)]);
    std::ifstream read(file(rank));
    all.push_back(WIFSIGNALED(status) ? "killed" : std::string(std::istreambuf_iterator<char>(read), {}));
  }
  return all;
}

void contains(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

class SharedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& text : outcomes(2, [](dist::Comm&) {}))
      if (text.find(kCannotShare) != std::string::npos) GTEST_SKIP() << kCannotShare << " here: pidfd_open or /proc";
  }
};

TEST_F(SharedMemory, ManySmallReductionsAgree) {
  EXPECT_EQ(outcomes(3, [](dist::Comm& comm) {
              for (int i = 0; i < 20000; ++i)
                if (comm.sum(i + comm.rank()) != 3 * i + 3) throw std::runtime_error("wrong in round " + std::to_string(i));
            }),
            std::vector<std::string>(3));
}

TEST_F(SharedMemory, AKilledRankIsReportedByTheOthers) {
  const auto found = outcomes(3, [](dist::Comm& comm) {
    comm.barrier();
    if (comm.rank() == 1) raise(SIGKILL);
    comm.all_reduce(at::zeros({10}));
  });
  EXPECT_EQ(found[1], "killed");
  for (const int rank : {0, 2}) contains(found[static_cast<size_t>(rank)], "PeerError: rank 1 of 3 was lost");
}

TEST_F(SharedMemory, ARankThatLeavesIsReported) {
  const auto found = outcomes(2, [](dist::Comm& comm) {
    if (comm.rank() == 1) return;
    const at::Tensor never = at::empty({5});
    comm.receive(never, 1)->wait();
  });
  EXPECT_EQ(found[1], "");
  contains(found[0], "PeerError: rank 1 of 2 was lost");
}

TEST_F(SharedMemory, AMessageToALostRankFails) {
  const auto found = outcomes(2, [](dist::Comm& comm) {
    comm.barrier();
    if (comm.rank() == 1) raise(SIGKILL);
    const at::Tensor large = at::zeros({2000000});
    comm.send(large, 1)->wait();
  });
  contains(found[0], "PeerError: rank 1 of 2 was lost");
}

TEST_F(SharedMemory, ARankThatDoesNotComeIsReportedAfterTheTimeout) {
  const auto found = outcomes(
      2,
      [](dist::Comm& comm) {
        if (comm.rank() == 1) std::this_thread::sleep_for(seconds(3));
        comm.barrier();
      },
      seconds(1));
  contains(found[0], "PeerError: rank 1 of 2 has not come for 1 s");
}

TEST_F(SharedMemory, DifferentCallsAreNamed) {
  const auto sizes = outcomes(2, [](dist::Comm& comm) { comm.all_reduce(at::zeros({10 + comm.rank()})); });
  contains(sizes[0], "PeerError: ranks call different collectives: rank 0 ALLREDUCE of 40 bytes of Float, rank 1 "
                     "ALLREDUCE of 44 bytes of Float");
  const auto kinds = outcomes(2, [](dist::Comm& comm) {
    comm.rank() == 0 ? comm.barrier() : comm.all_reduce(at::zeros({10}));
  });
  contains(kinds[1], "rank 1 ALLREDUCE of 40 bytes of Float, rank 0 BARRIER of 0 bytes");
  const auto messages = outcomes(2, [](dist::Comm& comm) {
    const at::Tensor x = at::zeros({3});
    comm.rank() == 0 ? comm.send(x, 1)->wait() : comm.receive(at::empty({4}), 0)->wait();
  });
  contains(messages[1], "rank 0 sent 12 bytes of Float, but rank 1 expected 16 of Float");
}

// c10d's Reducer is in between: the error must come through it as it is.
TEST_F(SharedMemory, ARankLostDuringBackwardIsReported) {
  const auto found = outcomes(2, [](dist::Comm& comm) {
    at::Tensor leaf = at::zeros({10}).set_requires_grad(true);
    leaf.mutable_grad() = at::zeros({10});
    dist::BucketReducer reducer({leaf}, comm, {});
    const at::Tensor loss = (leaf * 2).sum();
    reducer.reduce_next_backward(loss);
    if (comm.rank() == 1) raise(SIGKILL);
    loss.backward();
  });
  contains(found[0], "PeerError: rank 1 of 2 was lost");
}

}  // namespace
}  // namespace trainer::testing
