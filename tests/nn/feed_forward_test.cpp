#include "models/nn/feed_forward.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

using nn::Activation;

constexpr Activation kAll[] = {Activation::kRelu, Activation::kGelu,      Activation::kGeluNew,
                               Activation::kSilu, Activation::kQuickGelu, Activation::kTanh};
const char* const kNames[] = {"relu", "gelu", "gelu_new", "silu", "quick_gelu", "tanh"};

at::Tensor plain(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluNew:
      return at::gelu(x, "tanh");
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::kTanh:
      return at::tanh(x);
  }
  return {};
}

struct Case {
  nn::LayoutPtr rows;
  int64_t width;
  double p;
  at::ScalarType dtype;
};

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const double p : {0.0, 0.3})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      for (const int64_t width : {1, 7, 8, 13, 130}) all.push_back({layout_of({3, 1, 4}, {9, 2, 11}), width, p, dtype});
      all.push_back({layout_of({}), 13, p, dtype});
    }
  return all;
}

nn::DropoutRule rule_of(double p) {
  return p > 0 ? nn::dropout_rule(nn::philox_key(5, "ff"), p) : nn::DropoutRule{};
}

at::Tensor mask_for(const Case& c, const nn::DropoutRule& rule) {
  return rule.active() ? mask_of(rule, *c.rows, c.width) : at::full({}, 1.0, at::kDouble);
}

std::string name_of(const Case& c, size_t activation) {
  return std::string(kNames[activation]) + ", width " + std::to_string(c.width) + ", dropout " + std::to_string(c.p);
}

TEST(FeedForward, ActivationsMatchTheReference) {
  for (const Case& c : all_cases())
    for (size_t i = 0; i < std::size(kAll); ++i) {
      const nn::DropoutRule rule = rule_of(c.p);
      const at::Tensor mask = mask_for(c, rule);
      expect_same([&](const auto& in) { return nn::activate(in[0], kAll[i], rule, c.rows); },
                  [&](const auto& in) { return plain(in[0], kAll[i]) * mask; },
                  {3 * random_tensor({c.rows->tokens(), c.width}, 1).to(c.dtype)}, tolerance_of(c.dtype),
                  name_of(c, i));
    }
}

TEST(FeedForward, GatedActivationsMatchTheReference) {
  for (const Case& c : all_cases())
    for (size_t i = 0; i < std::size(kAll); ++i) {
      const nn::DropoutRule rule = rule_of(c.p);
      const at::Tensor mask = mask_for(c, rule);
      expect_same([&](const auto& in) { return nn::activate_gated(in[0], in[1], kAll[i], rule, c.rows); },
                  [&](const auto& in) { return plain(in[0], kAll[i]) * in[1] * mask; },
                  {3 * random_tensor({c.rows->tokens(), c.width}, 1).to(c.dtype),
                   random_tensor({c.rows->tokens(), c.width}, 2, c.dtype)},
                  tolerance_of(c.dtype), "gated " + name_of(c, i));
    }
}

TEST(FeedForward, ActivationsHaveHuggingFaceNames) {
  for (size_t i = 0; i < std::size(kAll); ++i) EXPECT_EQ(nn::activation_of(kNames[i]), kAll[i]);
  EXPECT_EQ(nn::activation_of("gelu_pytorch_tanh"), Activation::kGeluNew);
  EXPECT_EQ(nn::activation_of("swish"), Activation::kSilu);
  EXPECT_EQ(nn::activation_of("mish"), std::nullopt);
  EXPECT_NE(nn::activation_names().find("gelu_new, "), std::string::npos);
}

TEST(FeedForward, LargeInputsSaturate) {
  const nn::LayoutPtr rows = layout_of({1});
  for (size_t i = 0; i < std::size(kAll); ++i)
    for (const float x : {-1e4F, -100.0F, -30.0F, 30.0F, 100.0F, 1e4F}) {
      const at::Tensor in = at::full({1, 1}, x), exact = plain(in.to(at::kDouble), kAll[i]);
      EXPECT_NEAR(nn::activate(in, kAll[i], {}, rows).item<double>(), exact.item<double>(),
                  1e-6 * std::max(1.0, exact.item<double>()))
          << kNames[i] << "(" << x << ")";
    }
}

TEST(FeedForward, PropagatesNan) {
  const at::Tensor nan = at::full({1, 9}, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < std::size(kAll); ++i)
    EXPECT_TRUE(nn::activate(nan, kAll[i], {}, layout_of({1})).isnan().all().item<bool>()) << kNames[i];
}

}  // namespace
}  // namespace trainer::testing
