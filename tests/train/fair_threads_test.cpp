// How many threads compute while other programs use the cores (Note [Fair threads]).
#include <vector>

#include <gtest/gtest.h>

#include "engine/train/fair_threads.h"

namespace trainer::testing {
namespace {

using train::FairThreads;

/// A rank whose updates take 0.1 s.
class Rank {
 public:
  explicit Rank(int most) : most_(most), now_threads_(most), threads_(most, [this] { return waited_; }) {}

  /// Makes updates for `seconds`. While all threads compute, they wait for `cores` cores together. Returns the seconds
  /// in which all of them computed.
  double compute(double seconds, double cores) {
    double all = 0;
    for (int update = 0; update < seconds / kUpdate; ++update) {
      const bool uses_all = now_threads_ == most_;
      all += uses_all ? kUpdate : 0;
      waited_ += uses_all ? kUpdate * cores : 0;
      now_threads_ = threads_.after_update(now_ += kUpdate);
    }
    return all;
  }
  int threads() const { return now_threads_; }

 private:
  static constexpr double kUpdate = 0.1;
  int most_, now_threads_;
  double now_ = 1000, waited_ = 5;
  FairThreads threads_;
};

TEST(FairThreads, AreAllThatThereAreOnAQuietMachine) {
  Rank rank(2);
  EXPECT_NEAR(rank.compute(30, 0.2), 30, 0.01);
}

TEST(FairThreads, LeaveTheBusyCoresAlone) {
  Rank two(2), eight(8), three(3);
  two.compute(1, 0.5);
  EXPECT_EQ(two.threads(), 1);
  eight.compute(1, 1.3);
  EXPECT_EQ(eight.threads(), 6);
  three.compute(1, 100);
  EXPECT_EQ(three.threads(), 1);
}

TEST(FairThreads, AreTriedAgainEverLessOftenAndStayWhenTheMachineIsQuiet) {
  Rank rank(2);
  EXPECT_LT(rank.compute(600, 0.5), 8);
  rank.compute(FairThreads::kLongestPause + 1, 0);
  EXPECT_EQ(rank.threads(), 2);
  EXPECT_NEAR(rank.compute(60, 0), 60, 0.01);
  // As soon as at the beginning:
  rank.compute(1, 0.5);
  EXPECT_EQ(rank.threads(), 1);
  rank.compute(FairThreads::kFirstPause, 0);
  EXPECT_EQ(rank.threads(), 2);
}

TEST(FairThreads, OneStaysOne) {
  Rank rank(1);
  rank.compute(60, 0.9);
  EXPECT_EQ(rank.threads(), 1);
}

}  // namespace
}  // namespace trainer::testing
