#include "engine/optim/loss_scale.h"
#include "tests/support/source_dir.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainer::optim {
namespace {

TEST(LossScale, MatchesGradScaler) {
  std::ifstream in(source_dir() + "/tests/golden/fp16.json");
  const nlohmann::json golden = nlohmann::json::parse(in);
  for (const nlohmann::json& run : golden["grad_scaler"]) {
    config::LossScalingConfig options;
    options.initial_scale_power = run["initial_scale_power"];
    options.loss_scale_window = run["growth_interval"];
    LossScale scale(options);
    int64_t skipped = 0;
    for (size_t i = 0; i < run["overflows"].size(); ++i) {
      const bool overflowed = run["overflows"][i] != 0;
      skipped += overflowed;
      scale.update(overflowed);
      ASSERT_EQ(scale.scale(), std::exp2(run["powers"][i].get<double>())) << "update " << i;
    }
    EXPECT_EQ(scale.state().skipped, skipped);
    EXPECT_GT(skipped, 20);
  }
}

TEST(LossScale, ContinuesFromItsState) {
  config::LossScalingConfig options;
  options.loss_scale_window = 3;
  options.hysteresis = 2;
  const bool overflows[] = {false, true, false, false, false, true, true, true, false, true, false, false};
  LossScale whole(options), first(options);
  for (size_t i = 0; i < std::size(overflows); ++i) {
    LossScale resumed(options);
    resumed.set_state(first.state());
    resumed.update(overflows[i]);
    first = resumed;
    whole.update(overflows[i]);
    EXPECT_EQ(first.scale(), whole.scale()) << "update " << i;
  }
}

TEST(LossScale, HysteresisLetsSomeOverflowsPass) {
  config::LossScalingConfig options;
  options.hysteresis = 3;
  options.loss_scale_window = 2;
  LossScale scale(options);
  for (const double expected : {65536.0, 65536.0, 32768.0, 16384.0}) {
    scale.update(true);
    EXPECT_EQ(scale.scale(), expected);
  }
  scale.update(false);
  scale.update(true);  // only a doubling restores the hysteresis
  EXPECT_EQ(scale.scale(), 8192);
  options.consecutive_hysteresis = true;
  LossScale consecutive(options);
  for (const bool overflowed : {true, true, false, true, true}) consecutive.update(overflowed);
  EXPECT_EQ(consecutive.scale(), 65536);
}

TEST(LossScale, StaysWithinItsBounds) {
  config::LossScalingConfig options;
  options.initial_scale_power = 1;
  LossScale scale(options);
  EXPECT_TRUE(scale.may_overflow());
  scale.update(true);
  EXPECT_EQ(scale.scale(), 1);
  EXPECT_FALSE(scale.may_overflow());
  options.min_loss_scale = 0;
  LossScale low(options);
  for (int i = 0; i < 100; ++i) low.update(true);
  EXPECT_EQ(low.scale(), std::exp2(-24.0));
  EXPECT_FALSE(low.may_overflow());
  options.initial_scale_power = 126;
  options.loss_scale_window = 1;
  LossScale high(options);
  for (int i = 0; i < 5; ++i) high.update(false);
  EXPECT_EQ(high.scale(), std::exp2(127.0));  // the largest power of two of fp32
}

TEST(LossScale, AFixedOneStaysAndBearsSomeOverflowsInARow) {
  config::LossScalingConfig options;
  options.loss_scale = 100;
  options.loss_scale_window = 2;
  LossScale scale(options);
  for (int i = 0; i < 19; ++i) {
    EXPECT_TRUE(scale.may_overflow());
    scale.update(true);
  }
  EXPECT_FALSE(scale.may_overflow());
  EXPECT_EQ(scale.state().skipped, 19);
  for (int i = 0; i < 5; ++i) scale.update(false);
  EXPECT_TRUE(scale.may_overflow());
  EXPECT_EQ(scale.scale(), 100);
}

TEST(LossScale, AResumedRunMayFixItOrSetItFree) {
  config::LossScalingConfig fixed_at_64;
  fixed_at_64.loss_scale = 64;
  LossScale dynamic{config::LossScalingConfig()}, fixed(fixed_at_64);
  fixed.set_state(dynamic.state());
  EXPECT_EQ(fixed.scale(), 64);
  dynamic.set_state(fixed.state());
  EXPECT_EQ(dynamic.scale(), 64);
  dynamic.update(true);
  EXPECT_EQ(dynamic.scale(), 32);
}

}  // namespace
}  // namespace trainer::optim
