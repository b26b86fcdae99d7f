#include "models/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace trainer::nn {
namespace {

Parameter parameter_of(Init init, std::string name = "encoder.weight") {
  Parameter parameter;
  parameter.init = init;
  parameter.name = std::move(name);
  return parameter;
}

std::vector<float> drawn(const Parameter& parameter, int64_t begin, int64_t end, uint64_t seed = 3) {
  std::vector<float> values(end - begin);
  draw(parameter, seed, begin, end, values.data());
  return values;
}

struct Moments {
  double mean = 0, deviation = 0, fourth = 0;  // fourth: E[(x - mean)^4] / deviation^4
};

Moments moments_of(const std::vector<float>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double second = 0, fourth = 0;
  for (const float x : values) second += std::pow(x - m.mean, 2) / n, fourth += std::pow(x - m.mean, 4) / n;
  m.deviation = std::sqrt(second);
  m.fourth = fourth / (second * second);
  return m;
}

constexpr int64_t kMany = 1'000'000;  // the tolerances below are 5 standard errors of this many draws

TEST(Init, NormalHasTheRightMoments) {
  const auto values = drawn(parameter_of({Init::kNormal, 0.02}), 0, kMany);
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 0, 5 * 0.02 / 1e3);
  EXPECT_NEAR(m.deviation, 0.02, 5 * 0.02 / std::sqrt(2e6));
  EXPECT_NEAR(m.fourth, 3, 5 * std::sqrt(96.0 / kMany));
  const auto beyond = std::count_if(values.begin(), values.end(), [](float x) { return std::abs(x) > 3 * 0.02F; });
  EXPECT_NEAR(static_cast<double>(beyond) / kMany, 0.0027, 5 * std::sqrt(0.0027 / kMany));
}

TEST(Init, UniformHasTheRightMomentsAndBounds) {
  const auto values = drawn(parameter_of({Init::kUniform, 0.5}), 0, kMany);
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 0, 5 * 0.5 / std::sqrt(3.0) / 1e3);
  EXPECT_NEAR(m.deviation, 0.5 / std::sqrt(3.0), 1e-3);
  EXPECT_NEAR(m.fourth, 1.8, 1e-2);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -0.5F);
  EXPECT_LE(*high, 0.5F);
  EXPECT_LT(*low, -0.4999F);
  EXPECT_GT(*high, 0.4999F);
}

TEST(Init, NeighborsAreNotCorrelated) {
  for (const Init init : {Init{Init::kNormal, 1}, Init{Init::kUniform, std::sqrt(3.0)}}) {
    const auto values = drawn(parameter_of(init), 0, kMany);
    for (const size_t lag : {1, 2, 3, 4, 1024}) {
      double product = 0;
      for (size_t i = 0; i + lag < values.size(); ++i) product += static_cast<double>(values[i]) * values[i + lag];
      EXPECT_NEAR(product / kMany, 0, 5e-3) << "lag " << lag;
    }
  }
}

TEST(Init, SlicesAgreeWithTheWhole) {
  for (const Init init : {Init{Init::kNormal, 1}, Init{Init::kUniform, 1}, Init{Init::kConstant, 0.25}}) {
    const Parameter parameter = parameter_of(init);
    const auto whole = drawn(parameter, 0, 40);
    for (int64_t begin = 0; begin <= 40; ++begin)
      for (int64_t end = begin; end <= 40; ++end)
        EXPECT_EQ(drawn(parameter, begin, end), std::vector<float>(whole.begin() + begin, whole.begin() + end))
            << begin << " to " << end;
    const int64_t far = int64_t{5} << 34;  // the counter has more than 32 bits
    EXPECT_EQ(drawn(parameter, far + 3, far + 4)[0], drawn(parameter, far, far + 8)[3]);
    if (init.kind != Init::kConstant) {
      EXPECT_NE(drawn(parameter, far, far + 4), drawn(parameter, 0, 4));
    }
  }
}

TEST(Init, DrawsDifferByNameAndSeed) {
  const Init init{Init::kNormal, 1};
  const auto values = drawn(parameter_of(init), 0, 8);
  EXPECT_EQ(drawn(parameter_of(init), 0, 8), values);
  EXPECT_NE(drawn(parameter_of(init, "decoder.weight"), 0, 8), values);
  EXPECT_NE(drawn(parameter_of(init), 0, 8, 4), values);
}

TEST(Init, ConstantIsConstant) {
  for (const float value : drawn(parameter_of({Init::kConstant, 1.5}), 2, 9)) EXPECT_EQ(value, 1.5F);
}

}  // namespace
}  // namespace trainer::nn
