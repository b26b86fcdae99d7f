// Means over the updates since the last logged step.
#include "engine/train/log_window.h"

#include <gtest/gtest.h>

namespace trainer::train {
namespace {

TEST(LogWindow, GivesMeansOverItsUpdates) {
  LogWindow window;
  window.add(/*tokens=*/100, /*efficiency=*/0.5, /*seconds=*/2, /*data_seconds=*/0.5);
  window.add(300, 1, 6, 0);
  EXPECT_DOUBLE_EQ(window.tokens_per_second(), 50);
  EXPECT_DOUBLE_EQ(window.step_seconds(), 4);
  EXPECT_DOUBLE_EQ(window.data_wait_seconds(), 0.25);
  EXPECT_DOUBLE_EQ(window.efficiency(), 0.8);  // 400 tokens in the time of 200 + 300
}

TEST(LogWindow, IsEfficientWithoutTokens) {
  LogWindow window;
  window.add(0, 1, 2, 0);
  EXPECT_EQ(window.efficiency(), 1);
  EXPECT_EQ(window.tokens_per_second(), 0);
}

}  // namespace
}  // namespace trainer::train
