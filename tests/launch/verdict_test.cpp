#include "engine/launch/verdict.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "tests/support/held_process.h"

namespace trainer::launch {
namespace {

/// A rank in its third step, with calls in the group of all ranks.
class FakeRank {
 public:
  FakeRank(int rank, int ranks) {
    state_.rank = rank;
    state_.beats = 1;
    state_.step = 3;
    state_.phase = "forward";
    state_.groups.push_back(group("among all ranks", ranks));
  }

  FakeRank& call(CollectiveKind kind, int64_t elements = 8, std::string_view what = "block.1", size_t in = 0) {
    GroupState& group = state_.groups[in];
    Collective call{
        .number = group.last + 1, .elements = elements, .kind = kind, .dtype = std::string_view("Float"), .what = what};
    const uint64_t before = group.recent.empty() ? 0 : group.recent.back().signature;
    call.signature = before * 31 + static_cast<uint64_t>(kind) * 1000 + static_cast<uint64_t>(elements) + what.back();
    group.recent.push_back(call);
    group.done = group.last = call.number;
    return *this;
  }
  FakeRank& wait(double seconds, size_t in = 0) {
    state_.waits_in = static_cast<int>(in);
    state_.waits_for = state_.groups[in].last;
    --state_.groups[in].done;
    state_.waited = seconds;
    return *this;
  }
  FakeRank& also_in(std::string_view name, int ranks) {
    state_.groups.push_back(group(name, ranks));
    return *this;
  }
  FakeRank& silent(double seconds) {
    state_.silent = seconds;
    return *this;
  }
  /// Without progress in `phase` for this long.
  FakeRank& still(double seconds, const char* phase = kForwardAndBackward) {
    state_.phase = phase;
    state_.still = seconds;
    return *this;
  }
  FakeRank& hides_waits() {
    state_.hides_waits = true;
    return *this;
  }
  FakeRank& process(pid_t pid) {
    state_.pid = pid;
    return *this;
  }
  FakeRank& ended() {
    state_.running = false;
    return *this;
  }
  operator RankState() const { return state_; }

 private:
  static GroupState group(std::string_view name, int ranks) {
    GroupState group;
    group.group.name = name;
    for (int r = 0; r < ranks; ++r) group.group.add_member(r);
    return group;
  }

  RankState state_;
};

constexpr auto kGather = CollectiveKind::kAllGather;
constexpr auto kSum = CollectiveKind::kSum;

TEST(Differing, RanksMayBeAtDifferentPointsOfTheSameCalls) {
  EXPECT_FALSE(differing({FakeRank(0, 2).call(kGather).call(kSum).call(kGather), FakeRank(1, 2).call(kGather)}));
  EXPECT_FALSE(differing({FakeRank(0, 2), FakeRank(1, 2).call(kGather)}));
}

TEST(Differing, TheRankThatCallsAnotherKindIsNamedByTheMajority) {
  const auto failure =
      differing({FakeRank(0, 3).call(kGather).call(kGather), FakeRank(1, 3).call(kGather).call(kSum, 64, "block.2"),
                 FakeRank(2, 3).call(kGather).call(kGather)});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, kInternalFailure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->step, 3);
  EXPECT_EQ(failure->message,
            "ranks 0 and 1 called different collectives\n"
            "  rank 0 (step 3, forward): all-gather 2 of 8 Float among all ranks (block.1)\n"
            "  rank 1 (step 3, forward): all-reduce (sum) 2 of 64 Float among all ranks (block.2)");
}

TEST(Differing, NeitherOfTwoRanksIsBlamed) {
  const auto failure = differing({FakeRank(0, 2).call(kSum, 8), FakeRank(1, 2).call(kSum, 16)});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, -1);
}

TEST(Differing, TwoOfThreeRanksWaitBrieflyForTheThird) {
  const FakeRank first = FakeRank(0, 3).call(kSum, 8), second = FakeRank(2, 3).call(kSum, 16), third(1, 3);
  const auto found = [](FakeRank one, FakeRank other, FakeRank missing) { return differing({one, missing, other}); };
  EXPECT_FALSE(found(FakeRank(first).wait(1), FakeRank(second).wait(1), third));
  EXPECT_TRUE(will_differ({FakeRank(first).wait(1), third, FakeRank(second).wait(1)}));
  EXPECT_FALSE(will_differ({FakeRank(first).wait(1), third, FakeRank(first).wait(1)}));
  EXPECT_FALSE(will_differ({FakeRank(first).wait(1), FakeRank(third).call(kSum, 8), FakeRank(second).wait(1)}));
  EXPECT_TRUE(found(FakeRank(first).wait(3), FakeRank(second).wait(1), third));
  EXPECT_TRUE(found(FakeRank(first).wait(1), FakeRank(second).ended(), third));
  EXPECT_TRUE(found(FakeRank(first).wait(1), FakeRank(second).wait(1), FakeRank(third).ended()));
  const auto failure = found(FakeRank(first).wait(1), FakeRank(second).wait(1), FakeRank(third).call(kSum, 8));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
}

TEST(Differing, AnotherUnitIsAnotherCall) {
  EXPECT_TRUE(differing({FakeRank(0, 2).call(kGather, 8, "block.1"), FakeRank(1, 2).call(kGather, 8, "block.2")}));
}

TEST(Differing, TheFirstDifferenceIsReported) {
  const auto failure = differing({FakeRank(0, 2).call(kSum, 1).call(kGather, 5).call(kGather, 6),
                                  FakeRank(1, 2).call(kSum, 2).call(kGather, 6).call(kGather, 7)});
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->message.find("all-reduce (sum) 1 of 2 Float"), std::string::npos) << failure->message;
}

TEST(Frozen, AFrozenProcessEndsTheRun) {
  const auto failure =
      frozen({FakeRank(0, 2).call(kGather).call(kGather).wait(11), FakeRank(1, 2).call(kGather).silent(12)}, 2, 10);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, kPeerFailure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_NE(failure->message.find("has not run for 12 s"), std::string::npos) << failure->message;
  EXPECT_NE(failure->message.find("rank 0 waits in all-gather 2"), std::string::npos) << failure->message;
}

TEST(Frozen, IgnoresShortSilencesPausesOfAllAndEndedRanks) {
  EXPECT_FALSE(frozen({FakeRank(0, 2), FakeRank(1, 2).silent(9)}, 2, 10));
  EXPECT_FALSE(frozen({FakeRank(0, 2).silent(20), FakeRank(1, 2).silent(20)}, 2, 10));
  EXPECT_FALSE(frozen({FakeRank(0, 2), FakeRank(1, 2).silent(20).ended()}, 2, 10));
  EXPECT_FALSE(frozen({FakeRank(0, 1).silent(20)}, 1, 10));
}

TEST(Frozen, ASingleRankOfItsMachineCounts) {
  EXPECT_TRUE(frozen({FakeRank(0, 2).silent(20)}, 2, 10));
}

TEST(Stuck, ReportsRanksThatWaitForEachOtherInDifferentGroups) {
  const auto failure =
      stuck({FakeRank(0, 2).also_in("among the tensor ranks 0, 1", 2).call(kGather).wait(3),
             FakeRank(1, 2).also_in("among the tensor ranks 0, 1", 2).call(kSum, 8, "q", 1).wait(3, 1)},
            2);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, kInternalFailure);
  EXPECT_EQ(failure->message,
            "the ranks wait for each other, and none can continue\n"
            "  rank 0 waits in all-gather 1 of 8 Float among all ranks (block.1)\n"
            "  rank 1 waits in all-reduce (sum) 1 of 8 Float among the tensor ranks 0, 1 (q)");
}

TEST(Stuck, NotWhileARankComputesOrACollectiveIsInProgress) {
  EXPECT_FALSE(stuck({FakeRank(0, 2).call(kGather).wait(30), FakeRank(1, 2)}, 2));
  EXPECT_FALSE(stuck({FakeRank(0, 2).call(kGather).wait(30), FakeRank(1, 2).call(kGather).wait(30)}, 2));
  EXPECT_FALSE(stuck({FakeRank(0, 2).also_in("b", 2).call(kGather).wait(3),
                      FakeRank(1, 2).also_in("b", 2).call(kSum, 8, "q", 1).wait(1, 1)},
                     2));
}

TEST(Stuck, NotWhenARankOfAnotherMachineMayArrive) {
  EXPECT_FALSE(stuck({FakeRank(0, 4).call(kGather).wait(30), FakeRank(1, 4).call(kGather).wait(30)}, 2));
}

TEST(Hung, NamesTheRankWithoutProgressThatDoesNotWait) {
  const auto failure = hung({FakeRank(0, 3).call(kGather).call(kSum).wait(31).still(31),
                             FakeRank(1, 3).call(kGather).still(32), FakeRank(2, 3).call(kGather).call(kSum).wait(31)},
                            3, 30, 0.25);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, kPeerFailure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->message,
            "it hangs: no progress for 32 s, and an update usually takes 0.250 s\n"
            "  it computes after all-gather 1 of 8 Float among all ranks (block.1)\n"
            "  ranks 0 and 2 wait in all-reduce (sum) 2 of 8 Float among all ranks (block.1)\n"
            "  if an update may take this long, raise training.ddp_timeout: a sixtieth of it is the limit");
}

TEST(Hung, LongUpdatesAreRoundedToSeconds) {
  const std::string message = hung({FakeRank(0, 1).still(1512)}, 1, 1500, 150.6)->message;
  EXPECT_NE(message.find("for 1512 s, and an update usually takes 151 s\n"), std::string::npos) << message;
}

TEST(Hung, AppliesWithoutPeersOnTheMachine) {
  EXPECT_TRUE(hung({FakeRank(0, 1).still(31)}, 1, 30, 1));
  EXPECT_TRUE(hung({FakeRank(0, 2).still(31, kOptimizerStep)}, 2, 30, 1));
}

TEST(Hung, NotBeforeTheLimitOutsideOfAnUpdateOrAfterItsEnd) {
  const FakeRank waiting = FakeRank(0, 2).call(kGather).wait(31).still(31);
  EXPECT_FALSE(hung({waiting, FakeRank(1, 2).still(29)}, 2, 30, 1));
  for (const char* phase : {"evaluating", "saving", "logging and reading the next batch", "loading the weights"})
    EXPECT_FALSE(hung({waiting, FakeRank(1, 2).still(999, phase)}, 2, 30, 1)) << phase;
  EXPECT_FALSE(hung({waiting, FakeRank(1, 2).still(31).ended()}, 2, 30, 1));
}

TEST(Hung, AWaitForAnotherMachineIsJudgedThere) {
  EXPECT_FALSE(hung({FakeRank(0, 4).call(kGather).wait(31).still(31), FakeRank(1, 4).call(kGather).wait(31).still(31)},
                    4, 30, 1));
}

TEST(Hung, ACollectiveThatDoesNotFinishBlamesNoRank) {
  const auto failure = hung(
      {FakeRank(0, 2).call(kGather).wait(31).still(31), FakeRank(1, 2).call(kGather).wait(31).still(31)}, 2, 30, 1);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, -1);
  EXPECT_TRUE(failure->message.starts_with("the ranks hang: no progress for 31 s")) << failure->message;
}

TEST(Hung, ARankThatHidesItsWaitsIsNotBlamed) {
  const FakeRank one = FakeRank(0, 2).still(31).hides_waits(), other = FakeRank(1, 2).still(31).hides_waits();
  EXPECT_EQ(hung({one, other}, 2, 30, 1)->rank, -1);
  EXPECT_FALSE(hung({one, other}, 4, 30, 1));  // they may wait for a rank of another machine
  EXPECT_FALSE(hung({one, FakeRank(1, 2).still(99, "logging and reading the next batch").hides_waits()}, 2, 30, 1));
}

/// A file server that doesn't respond may do so again.
TEST(Hung, NotWhileTheKernelHoldsARank) {
  const testing::HeldProcess held;
  const FakeRank waiting = FakeRank(0, 2).call(kGather).wait(99).still(99);
  FakeRank one(1, 2);
  EXPECT_TRUE(hung({waiting, one.still(99).process(getpid())}, 2, 30, 1));
  EXPECT_FALSE(hung({waiting, one.process(held.pid())}, 2, 30, 1));
  EXPECT_FALSE(hung({waiting, FakeRank(1, 2).call(kGather).wait(99).still(99).process(held.pid())}, 2, 30, 1));
}

TEST(Held, IsARankWithoutProgress) {
  const testing::HeldProcess process;
  EXPECT_FALSE(held({FakeRank(0, 1).still(59).process(process.pid())}, 60));
  EXPECT_FALSE(held({FakeRank(0, 1).still(61).process(getpid())}, 60));
  const auto failure = held({FakeRank(0, 1).still(61).process(process.pid())}, 60);
  ASSERT_TRUE(failure);
  const std::string text = "no progress for 61 s\n  it is in state D (disk sleep)";
  EXPECT_TRUE(failure->message.starts_with(text)) << failure->message;
}

TEST(Late, NamesTheMissingRankAndItsState) {
  const auto failure = late({FakeRank(0, 3).call(kGather).call(kSum).wait(1801), FakeRank(1, 3).call(kGather),
                             FakeRank(2, 3).call(kGather).call(kSum).wait(1801)},
                            1800);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, kPeerFailure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->message,
            "others have waited for it for 1801 s\n"
            "  it computes after all-gather 1 of 8 Float among all ranks (block.1)\n"
            "  ranks 0 and 2 wait in all-reduce (sum) 2 of 8 Float among all ranks (block.1)");
}

TEST(Late, AnEndedRankCounts) {
  const auto failure = late({FakeRank(0, 2).call(kGather).wait(1801), FakeRank(1, 2).ended()}, 1800);
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->message.find("it has ended"), std::string::npos) << failure->message;
}

TEST(Late, BlamesNoRankWhenAllOfThisMachineWait) {
  const auto failure = late({FakeRank(0, 4).call(kGather).wait(1801), FakeRank(1, 4).call(kGather).wait(1801)}, 1800);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, -1);
  EXPECT_NE(failure->message.find("check the other machines' ranks"), std::string::npos) << failure->message;
  EXPECT_NE(failure->message.find("ranks 0 and 1 wait in"), std::string::npos) << failure->message;
}

}  // namespace
}  // namespace trainer::launch
