#include "engine/train/divergence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainer::train {
namespace {

using config::OnDivergence;
using Remedy = Divergence::Remedy;

config::TrainingConfig choice(OnDivergence what, double deviations = 0) {
  config::TrainingConfig training;
  training.on_divergence = what;
  training.loss_spike_deviations = deviations;
  return training;
}

/// Losses that fall slowly, with a little noise.
double usual_loss(int step) {
  return 5 * std::exp(-0.01 * step) + 0.1 * std::sin(7.3 * step);
}

TEST(LossWatch, DistinguishesASpikeFromNoise) {
  Divergence divergence(choice(OnDivergence::kSkip, 6));
  for (int step = 1; step <= 300; ++step) {
    EXPECT_FALSE(divergence.is_spike(usual_loss(step))) << step;
    divergence.pass(step, usual_loss(step));
  }
  EXPECT_TRUE(divergence.is_spike(usual_loss(300) + 5));
  EXPECT_FALSE(divergence.is_spike(usual_loss(300) - 3));
}

TEST(LossWatch, FindsNoSpikeWithoutALimitOrInTheFirstUpdates) {
  Divergence unlimited(choice(OnDivergence::kSkip)), fresh(choice(OnDivergence::kSkip, 6));
  for (int step = 1; step <= 300; ++step) unlimited.pass(step, usual_loss(step));
  EXPECT_FALSE(unlimited.is_spike(1e9));
  for (int step = 1; step < 20; ++step) fresh.pass(step, usual_loss(step));
  EXPECT_FALSE(fresh.is_spike(1e9));
}

TEST(LossWatch, ContinuesFromItsState) {
  Divergence one(choice(OnDivergence::kSkip, 3)), other(choice(OnDivergence::kSkip, 3));
  for (int step = 1; step <= 50; ++step) one.pass(step, usual_loss(step));
  other.set_state(one.state());
  for (double loss = 0; loss < 10; loss += 0.01) EXPECT_EQ(one.is_spike(loss), other.is_spike(loss)) << loss;
}

TEST(Divergence, GivesUpAfterManyInARow) {
  EXPECT_EQ(Divergence(choice(OnDivergence::kStop)).remedy(1), Remedy::kStop);
  Divergence divergence(choice(OnDivergence::kSkip));
  for (int step = 1; step <= Divergence::kMostInARow; ++step) EXPECT_EQ(divergence.remedy(step), Remedy::kSkip);
  divergence.pass(11, 1);
  for (int step = 12; step < 12 + Divergence::kMostInARow; ++step) EXPECT_EQ(divergence.remedy(step), Remedy::kSkip);
  EXPECT_EQ(divergence.remedy(22), Remedy::kStop);
}

// A few good updates after a rollback are not enough.
TEST(Divergence, GivesUpAfterRepeatedRollbacks) {
  Divergence divergence(choice(OnDivergence::kRollback));
  int step = 0;
  for (int times = 1; times <= Divergence::kMostInARow; ++times) {
    EXPECT_EQ(divergence.remedy(++step), Remedy::kRollBack);
    for (int good = 0; good < 50; ++good) divergence.pass(++step, 1);
  }
  EXPECT_EQ(divergence.remedy(++step), Remedy::kStop);
  for (int good = 0; good < 200; ++good) divergence.pass(++step, 1);
  EXPECT_EQ(divergence.remedy(++step), Remedy::kRollBack);
}

}  // namespace
}  // namespace trainer::train
