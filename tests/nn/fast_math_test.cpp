#include "models/nn/fast_math.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trainer::nn {
namespace {

constexpr int kSteps = 2'000'000;

TEST(FastMath, ExpIsWithinTwoUlp) {
  double worst = 0, worst_at = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const auto x = static_cast<float>(-87.0 + 175.0 * i / kSteps);
    const double exact = std::exp(static_cast<double>(x));
    const auto rounded = static_cast<float>(exact);
    const double ulp = static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) - rounded;
    const double error = std::abs(fast_exp(x) - exact) / ulp;
    if (error > worst) worst = error, worst_at = x;
  }
  EXPECT_LE(worst, 2) << "at " << worst_at;
}

TEST(FastMath, ExpClampsItsInput) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fast_exp(0), 1);
  for (const float x : {-88.0F, -1e30F, -kInfinity}) EXPECT_EQ(fast_exp(x), fast_exp(-87)) << x;
  for (const float x : {89.0F, 1e30F, kInfinity}) EXPECT_EQ(fast_exp(x), fast_exp(88)) << x;
  EXPECT_LT(fast_exp(-87), 1.7e-38F);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastMath, TanhIsWithin1e7) {
  double worst = 0, worst_at = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const auto x = static_cast<float>(-12.0 + 24.0 * i / kSteps);
    const double error = std::abs(fast_tanh(x) - std::tanh(static_cast<double>(x)));
    if (error > worst) worst = error, worst_at = x;
  }
  EXPECT_LE(worst, 1e-7) << "at " << worst_at;
  EXPECT_EQ(fast_tanh(1e30F), 1);
  EXPECT_EQ(fast_tanh(-1e30F), -1);
  EXPECT_TRUE(std::isnan(fast_tanh(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastMath, PreciseTanhIsWithinThreeUlp) {
  double worst = 0, worst_at = 0;
  for (int i = 0; i <= kSteps; ++i)
    for (const double range : {12.0, 0.7, 1e-3}) {
      const auto x = static_cast<float>(range * (2.0 * i / kSteps - 1));
      const double exact = std::tanh(static_cast<double>(x)), size = std::abs(static_cast<float>(exact));
      const double ulp = static_cast<double>(std::nextafter(static_cast<float>(size), 2.0F)) - size;
      const double error = std::abs(precise_tanh(x) - exact) / ulp;
      if (error > worst) worst = error, worst_at = x;
    }
  EXPECT_LE(worst, 3) << "at " << worst_at;
  EXPECT_EQ(precise_tanh(0), 0);
  EXPECT_EQ(precise_tanh(1e30F), 1);
  EXPECT_EQ(precise_tanh(-1e30F), -1);
  EXPECT_TRUE(std::isnan(precise_tanh(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastMath, NormalCdfIsWithinTwoUnitsOfRounding) {
  double worst = 0, worst_relative = 0;
  for (float x = -12; x < 12; x += 1e-4F) {
    const double exact = 0.5 * std::erfc(-static_cast<double>(x) / std::sqrt(2.0));
    const double error = std::abs(normal_cdf(x) - exact);
    worst = std::max(worst, error);
    worst_relative = std::max(worst_relative, error / exact);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_LT(worst_relative, 2e-5);
  EXPECT_EQ(normal_cdf(0), 0.5F);
  EXPECT_EQ(normal_cdf(std::numeric_limits<float>::infinity()), 1);
  EXPECT_EQ(normal_cdf(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_TRUE(std::isnan(normal_cdf(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace trainer::nn
