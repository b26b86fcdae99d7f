// Which ranks are reported to slow down the others, and when.
#include <gtest/gtest.h>

#include "engine/train/stragglers.h"

namespace trainer::testing {
namespace {

using train::Stragglers;
constexpr size_t kWindow = Stragglers::kWindow;

/// Adds `updates` such updates; returns all reports.
std::vector<Stragglers::News> see(Stragglers& stragglers, const std::vector<double>& seconds, size_t updates) {
  std::vector<Stragglers::News> all;
  for (size_t i = 0; i < updates; ++i)
    for (const auto& news : stragglers.see(seconds)) all.push_back(news);
  return all;
}

TEST(Stragglers, AreReportedOnceAndWhenWorseOrOver) {
  Stragglers stragglers(4, 1);
  EXPECT_TRUE(see(stragglers, {1, 1.4, 1, 1}, kWindow).empty());
  const auto slow = see(stragglers, {1, 1, 2, 1.1}, 5 * kWindow);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank, 2);
  EXPECT_DOUBLE_EQ(slow[0].factor, 2);
  EXPECT_FALSE(slow[0].over);
  EXPECT_TRUE(see(stragglers, {1, 1, 2.5, 1}, kWindow).empty());  // not much worse
  const auto worse = see(stragglers, {1, 1, 4, 1}, 5 * kWindow);
  ASSERT_EQ(worse.size(), 1u);
  EXPECT_DOUBLE_EQ(worse[0].factor, 4);
  const auto over = see(stragglers, {1, 1, 1, 1}, 5 * kWindow);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over[0].rank, 2);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(see(stragglers, {1, 1, 2, 1}, 5 * kWindow).size(), 1u);  // again
}

TEST(Stragglers, AreNotWorseWhenTheOthersGetFaster) {
  Stragglers stragglers(2, 1);
  EXPECT_EQ(see(stragglers, {0.01, 0.2}, 2 * kWindow).size(), 1u);
  EXPECT_TRUE(see(stragglers, {0.004, 0.2}, 2 * kWindow).empty());
}

TEST(Stragglers, IgnoresOccasionalSlowUpdates) {
  Stragglers stragglers(2, 1);
  for (size_t i = 0; i < 10 * kWindow; ++i) EXPECT_TRUE(stragglers.see({1, i % 3 == 0 ? 9.0 : 1.0}).empty());
}

TEST(Stragglers, IgnoresMilliseconds) {
  Stragglers stragglers(2, 1);
  EXPECT_TRUE(see(stragglers, {0.001, 0.015}, 2 * kWindow).empty());
}

TEST(Stragglers, AreComparedWithinTheirStage) {
  Stragglers stragglers(6, 2);  // the second stage has more to do
  EXPECT_TRUE(see(stragglers, {1, 1, 1, 3, 3, 3}, 2 * kWindow).empty());
  const auto slow = see(stragglers, {1, 2, 1, 3, 3, 3}, 2 * kWindow);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank, 1);
  Stragglers alone(2, 2);
  EXPECT_TRUE(see(alone, {1, 9}, 2 * kWindow).empty());
}

}  // namespace
}  // namespace trainer::testing
