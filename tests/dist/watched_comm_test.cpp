#include "engine/dist/watched_comm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "engine/base/errors.h"
#include "engine/dist/faulty_comm.h"
#include "engine/dist/forwarding_comm.h"
#include "engine/dist/phase.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

/// Forwards to a communicator that outlives it.
class Borrowed : public dist::Comm {
 public:
  explicit Borrowed(dist::Comm& comm) : comm_(comm) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::unique_ptr<dist::Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    return comm_.all_gather(full, shard);
  }
  void all_reduce(const at::Tensor& tensor, dist::Reduce op) override { comm_.all_reduce(tensor, op); }
  std::unique_ptr<dist::Pending> send(const at::Tensor& t, int to) override { return comm_.send(t, to); }
  std::unique_ptr<dist::Pending> receive(const at::Tensor& t, int from) override { return comm_.receive(t, from); }
  void barrier() override { comm_.barrier(); }
  at::Tensor shared_memory(int64_t bytes) override { return comm_.shared_memory(bytes); }
  std::unique_ptr<dist::Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    return comm_.group(name, ranks);
  }

 private:
  dist::Comm& comm_;
};

struct Watched {
  std::shared_ptr<BoardMemory> memory = std::make_shared<BoardMemory>();
  std::shared_ptr<RankBoard> board = std::make_shared<RankBoard>(memory);
  std::unique_ptr<dist::Comm> comm;

  explicit Watched(dist::Comm& under)
      : comm(dist::watched_comm(board, under.size(), [&] { return std::make_unique<Borrowed>(under); })) {}

  const BoardMemory::Group& group(size_t index = 0) const { return memory->groups[index]; }
  Collective last(size_t index = 0) const { return *group(index).recent[group(index).last % 32].load(); }
};

TEST(WatchedComm, RecordsCollectivesAndTheirUnits) {
  run_ranks(2, [](dist::Comm& under) {
    const Watched watched(under);
    EXPECT_EQ(watched.last().kind, CollectiveKind::kMeeting);
    const dist::Phase phase("block.1");
    const at::Tensor full = at::empty({6}, at::kBFloat16);
    const auto pending = watched.comm->all_gather(full, at::ones({3}, at::kBFloat16));
    EXPECT_EQ(watched.group().done, 1u);
    pending->wait();
    EXPECT_EQ(watched.group().done, 2u);
    EXPECT_EQ(watched.last().kind, CollectiveKind::kAllGather);
    EXPECT_EQ(watched.last().elements, 6);
    EXPECT_EQ(watched.last().dtype.view(), "BFloat16");
    EXPECT_EQ(watched.last().what.view(), "block.1");
    EXPECT_EQ(watched.comm->sum(1), 2);
    EXPECT_EQ(watched.last().kind, CollectiveKind::kSum);
    EXPECT_EQ(watched.memory->wait.load()->number, 0u);
  });
}

TEST(WatchedComm, RecordsGroupsWithWorldRanks) {
  run_ranks(3, [](dist::Comm& under) {
    const Watched watched(under);
    if (under.rank() == 0) return;
    const auto pair = watched.comm->group("tail", {1, 2});
    pair->barrier();
    EXPECT_EQ(watched.group(1).group.load()->name.view(), "among the tail ranks 1, 2");
    EXPECT_TRUE(watched.group(1).group.load()->has_member(2));
    EXPECT_FALSE(watched.group(1).group.load()->has_member(0));
    EXPECT_EQ(watched.last(1).kind, CollectiveKind::kBarrier);
    const at::Tensor word = at::full({4}, 7.0);
    if (pair->rank() == 0)
      pair->send(word, 1)->wait();
    else
      pair->receive(word, 0)->wait();
    EXPECT_EQ(watched.group(2).group.load()->name.view(), "from rank 1 to rank 2, among the tail ranks 1, 2");
    EXPECT_EQ(watched.group(2).done, 1u);
  });
}

TEST(WatchedComm, UnitLabelsNest) {
  const dist::Phase outer("outer");
  {
    const dist::Phase inner("inner");
    EXPECT_EQ(dist::Phase::now(), "inner");
  }
  EXPECT_EQ(dist::Phase::now(), "outer");
}

/// A single rank that claims to be one of two.
struct OneOfTwo : dist::ForwardingComm {
  OneOfTwo() : ForwardingComm(dist::solo_comm()) {}
  int size() const override { return 2; }
};

/// Whether a rank's gathers succeed: before the fault's step, at that step, and once more.
std::vector<bool> gathers_around_a_skip(std::unique_ptr<dist::Comm> inner) {
  int64_t step = 2;
  const auto comm =
      dist::faulty_comm(std::move(inner), {.kind = dist::Fault::Kind::kSkip, .step = 3}, [&] { return step; });
  std::vector<bool> found;
  for (const int64_t now : {2, 3, 3}) {
    step = now;
    const at::Tensor full = at::full({2}, 0.0);
    comm->all_gather(full, at::ones({2}))->wait();
    found.push_back(at::equal(full, at::ones({2})));
  }
  return found;
}

TEST(FaultyComm, SkipsOneCollectiveAtItsStep) {
  EXPECT_EQ(gathers_around_a_skip(std::make_unique<OneOfTwo>()), (std::vector<bool>{true, false, true}));
}

TEST(FaultyComm, DoesNotStrikeInAGroupOfOneRank) {
  EXPECT_EQ(gathers_around_a_skip(dist::solo_comm()), (std::vector<bool>{true, true, true}));
}

TEST(FaultyComm, IsParsedFromTheEnvironment) {
  const auto read = [](const char* text) {
    setenv("TRAINER_INJECT", text, 1);
    const auto fault = dist::fault_from_environment();
    unsetenv("TRAINER_INJECT");
    return fault;
  };
  EXPECT_FALSE(read(""));
  const auto fault = read("slow:rank=2,step=5,seconds=1.5");
  EXPECT_EQ(fault->kind, dist::Fault::Kind::kSlow);
  EXPECT_EQ(fault->rank, 2);
  EXPECT_EQ(fault->step, 5);
  EXPECT_EQ(fault->seconds, 1.5);
  EXPECT_FALSE(dist::file_fault(*fault, 2));
  const auto full = dist::file_fault(*read("enospc:rank=1,step=6,file=4"), 1);
  EXPECT_EQ(full->save, 6);
  EXPECT_EQ(full->operation, 4);
  EXPECT_EQ(full->error, ENOSPC);
  EXPECT_TRUE(full->lasting);
  EXPECT_FALSE(dist::file_fault(*read("enospc:rank=1,step=6,file=4"), 0));
  EXPECT_EQ(dist::file_fault(*read("kill:file=2"), 0)->error, 0);
  EXPECT_EQ(dist::file_fault(*read("kill:file=2"), 0)->signal, SIGKILL);
  EXPECT_EQ(dist::file_fault(*read("stop:file=2"), 0)->signal, SIGSTOP);
  for (const char* text :
       {"explode:rank=1", "skip:rank", "skip:rank=x", "skip:color=1", "enospc:rank=1", "slow:file=1"})
    EXPECT_THROW(read(text), ConfigError) << text;
}

}  // namespace
}  // namespace trainer::testing
