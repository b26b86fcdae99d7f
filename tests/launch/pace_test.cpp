#include "engine/launch/pace.h"

#include <gtest/gtest.h>

namespace trainer::launch {
namespace {

/// A rank that is observed every half second.
class PaceTest : public ::testing::Test {
 protected:
  /// The rank is at `step`, in `phase`, for this many looks.
  void be(int64_t step, const char* phase, int looks = 1) {
    for (; looks > 0; --looks) {
      RankState now{.step = step, .phase = phase};
      pace_.see(before_, now, 0.5);
      before_ = now;
    }
  }
  void update(int64_t step, int looks) { be(step, kForwardAndBackward, looks); }

  RankState before_{};
  Pace pace_;
};

TEST_F(PaceTest, NeedsFiveUpdatesAfterTheFirst) {
  update(101, 60);  // a resumed run, which is still loading
  for (int64_t step = 102; step <= 106; ++step) {
    update(step, 4);
    EXPECT_FALSE(pace_.median()) << step;
  }
  update(107, 1);  // five have ended
  ASSERT_TRUE(pace_.median());
  EXPECT_DOUBLE_EQ(*pace_.median(), 2);
}

TEST_F(PaceTest, TimeBetweenUpdatesDoesNotCount) {
  for (int64_t step = 1; step <= 8; ++step) {
    update(step, 4);
    be(step, kOptimizerStep, 2);
    be(step, "logging and reading the next batch", 50);
    be(step, "saving", 50);
    be(step, "evaluating", 50);
  }
  ASSERT_TRUE(pace_.median());
  EXPECT_DOUBLE_EQ(*pace_.median(), 3);
}

TEST_F(PaceTest, ShortUpdatesAreCountedTogether) {
  for (int64_t step = 1; step <= 100; step += 10) update(step, 1);
  ASSERT_TRUE(pace_.median());
  EXPECT_DOUBLE_EQ(*pace_.median(), 0.05);
}

/// Otherwise a run whose updates all end between two looks would have no usual duration, and no hang would be seen.
TEST_F(PaceTest, OnlyOneUpdateIsTheFirst) {
  update(1, 1);
  update(2, 1);  // the first has ended
  EXPECT_FALSE(pace_.median());
  pace_ = {};
  before_ = {};
  update(101, 1);
  update(201, 1);
  ASSERT_TRUE(pace_.median());
  EXPECT_DOUBLE_EQ(*pace_.median(), 0.005);
}

TEST_F(PaceTest, IgnoresOutliersAndFollowsALastingChange) {
  for (int64_t step = 1; step <= 100; ++step) update(step, step % 10 == 0 ? 80 : 2);
  EXPECT_DOUBLE_EQ(*pace_.median(), 1);
  for (int64_t step = 101; step <= 200; ++step) update(step, 20);
  EXPECT_DOUBLE_EQ(*pace_.median(), 10);
}

}  // namespace
}  // namespace trainer::launch
