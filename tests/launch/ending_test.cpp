// Why and when the ranks of an attempt must end.
#include "engine/launch/ending.h"

#include <gtest/gtest.h>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCause{200}, kDistant{2000}, kGrace{60'000};

Ending ending() {
  return {kCause, kDistant, kGrace};
}

Failure lost_peer(int rank) {
  return {.rank = rank, .step = 4, .code = kPeerFailure, .message = "lost a peer"};
}

TEST(Ending, WithoutEventsTheOutcomeIsDone) {
  Ending end = ending();
  EXPECT_FALSE(end.is_near());
  EXPECT_FALSE(end.next_deadline());
  EXPECT_EQ(end.passed(Clock::now() + kGrace), Ending::Due::kNothing);
  EXPECT_EQ(end.outcome(true, 9, true).code, kDone);
}

TEST(Ending, WaitsForABetterCause) {
  Ending end = ending();
  const Clock::time_point before = Clock::now();
  end.add(lost_peer(0));
  end.come_soon(true);
  EXPECT_GE(*end.next_deadline(), before + kDistant) << "a report of another machine takes longer";
  end.add({.rank = 1, .step = 5, .code = 137, .message = "killed"});
  end.come_soon(true);
  EXPECT_LT(*end.next_deadline(), before + kDistant);
  EXPECT_EQ(end.passed(Clock::now() + kDistant), Ending::Due::kCause);
  EXPECT_EQ(end.passed(Clock::now() + kDistant), Ending::Due::kNothing) << "once";
  const Outcome outcome = end.outcome(false, 5, true);
  EXPECT_EQ(outcome.code, 137);
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_EQ(end.outcome(false, 5, false).rank, -1) << "the only rank is not named";
}

TEST(Ending, AStopHasAGracePeriodToSave) {
  Ending end = ending();
  end.stop(SIGHUP);
  EXPECT_EQ(end.signal_for_ranks(), SIGTERM);
  EXPECT_TRUE(end.is_settled());
  EXPECT_EQ(end.passed(Clock::now()), Ending::Due::kNothing);
  EXPECT_EQ(end.passed(Clock::now() + 2 * kGrace), Ending::Due::kSave);
  end.was_not_saved("too late");
  end.was_not_saved("second signal");
  const Outcome outcome = end.outcome(false, 7, true);
  EXPECT_EQ(outcome.code, kStopRequested);
  EXPECT_EQ(outcome.step, 7);
  EXPECT_EQ(outcome.message, "stopped on SIGHUP\n  too late");
}

TEST(Ending, AFinishedRunIsNotStopped) {
  Ending end = ending();
  end.stop(SIGINT);
  EXPECT_EQ(end.outcome(true, 7, true).code, kDone);
  EXPECT_EQ(end.outcome(false, 7, true).code, kInterrupted);
}

TEST(Ending, YieldingHasNoDeadlineButFailuresCount) {
  Ending end = ending();
  end.yield("machine 2 (node-c)");
  EXPECT_TRUE(end.is_near());
  EXPECT_FALSE(end.is_settled()) << "a rank that hangs now must be detected";
  EXPECT_FALSE(end.next_deadline());
  end.rank_has_stopped(kStopRequested);
  EXPECT_FALSE(end.next_deadline());
  const Outcome grown = end.outcome(false, 7, true);
  EXPECT_TRUE(grown.grows);
  EXPECT_EQ(grown.message, "machine 2 (node-c) can join");
  EXPECT_FALSE(end.outcome(true, 7, true).grows) << "the run is over";
  end.add({.rank = 1, .step = 7, .code = 137, .message = "killed"});
  EXPECT_FALSE(end.outcome(false, 7, true).grows);
}

TEST(Ending, AStopCancelsYielding) {
  Ending end = ending();
  end.yield("machine 2 (node-c)");
  end.stop(SIGTERM);
  EXPECT_TRUE(end.is_settled());
  EXPECT_TRUE(end.next_deadline());
  EXPECT_FALSE(end.outcome(false, 7, true).grows);
  EXPECT_EQ(end.outcome(false, 7, true).code, kStopRequested);
}

}  // namespace
}  // namespace trainer::launch
