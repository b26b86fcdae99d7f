#include "models/nn/dropout.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

nn::DropoutRule rule_of(double p, const char* place = "layer") {
  return nn::dropout_rule(nn::philox_key(5, place), p);
}

TEST(Dropout, KeepsTheRateAndTheExpectation) {
  constexpr int64_t kTokens = 1000, kWidth = 1000;
  const nn::LayoutPtr rows = layout_of({400, 600}, {3, int64_t{1} << 40});
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    const nn::DropoutRule rule = rule_of(p);
    const double rate = rule.threshold / 65536.0;
    EXPECT_NEAR(rate, p, 0.5 / 65536);
    const at::Tensor out = nn::dropout(at::ones({kTokens, kWidth}), rule, rows);
    const double kept = out.ne(0).sum().item<double>() / (kTokens * kWidth);
    const double deviation = std::sqrt(rate * (1 - rate) / (kTokens * kWidth));
    EXPECT_NEAR(kept, 1 - rate, 5 * deviation);
    EXPECT_FLOAT_EQ(out.max().item<float>(), static_cast<float>(1 / (1 - rate)));
  }
}

TEST(Dropout, MatchesTheReferenceMask) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int64_t width : {1, 37, 128, 200, 1100})
      for (const auto& lengths : std::vector<std::vector<int64_t>>{{3, 1, 4}, {1}, {}}) {
        const nn::LayoutPtr rows = layout_of(
            lengths, lengths.size() == 3 ? std::vector<int64_t>{9, 2, int64_t{3} << 33} : std::vector<int64_t>{});
        const nn::DropoutRule rule = rule_of(0.3);
        const at::Tensor mask = mask_of(rule, *rows, width);
        expect_same([&](const auto& in) { return nn::dropout(in[0], rule, rows); },
                    [&](const auto& in) { return in[0] * mask; }, {random_tensor({rows->tokens(), width}, 1, dtype)},
                    tolerance_of(dtype), "width " + std::to_string(width));
      }
}

TEST(Dropout, AddMatchesTheReference) {
  for (const double p : {0.0, 0.3})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
      for (const auto& lengths : std::vector<std::vector<int64_t>>{{3, 5}, {}}) {
        const nn::LayoutPtr rows = layout_of(lengths);
        const nn::DropoutRule rule = rule_of(p);
        const at::Tensor mask = mask_of(rule, *rows, 37);
        const at::Tensor residual = random_tensor({rows->tokens(), 37}, 1),
                         x = random_tensor({rows->tokens(), 37}, 2, dtype);
        EXPECT_EQ(nn::dropout_add(residual, x, rule, rows).scalar_type(), at::kFloat);
        expect_same([&](const auto& in) { return nn::dropout_add(in[0], in[1], rule, rows); },
                    [&](const auto& in) { return in[0] + in[1] * mask; }, {residual, x}, tolerance_of(dtype),
                    "dropout_add");
      }
}

TEST(Dropout, AcceptsATransposedInput) {
  const nn::LayoutPtr rows = layout_of({5});
  const nn::DropoutRule rule = rule_of(0.4);
  const at::Tensor x = random_tensor({7, 5}, 1).t();
  EXPECT_TRUE(at::equal(nn::dropout(x, rule, rows), nn::dropout(x.contiguous(), rule, rows)));
  EXPECT_TRUE(
      at::equal(nn::dropout_add(x, x, rule, rows), nn::dropout_add(x.contiguous(), x.contiguous(), rule, rows)));
}

TEST(Dropout, MaskDependsOnlyOnTheSampleIndex) {
  const nn::DropoutRule rule = rule_of(0.5);
  const std::vector<int64_t> lengths{4, 1, 6}, positions{12, 700, 5};
  std::vector<at::Tensor> samples, alone;
  for (size_t i = 0; i < lengths.size(); ++i) {
    samples.push_back(random_tensor({lengths[i], 150}, i));
    alone.push_back(nn::dropout(samples[i], rule, layout_of({lengths[i]}, {positions[i]})));
  }
  const auto batch = [&](std::vector<size_t> order) {
    std::vector<at::Tensor> rows;
    nn::Layout layout;
    for (const size_t i : order) rows.push_back(samples[i]), layout.append(lengths[i], positions[i]);
    return nn::dropout(at::cat(rows), rule, std::make_shared<nn::Layout>(layout));
  };
  EXPECT_TRUE(at::equal(batch({0, 1, 2}), at::cat({alone[0], alone[1], alone[2]})));
  EXPECT_TRUE(at::equal(batch({2, 0, 1}), at::cat({alone[2], alone[0], alone[1]})));
  EXPECT_TRUE(at::equal(batch({2, 1}), at::cat({alone[2], alone[1]})));
}

TEST(Dropout, MasksDifferByPlaceSampleAndToken) {
  const at::Tensor ones = at::ones({2, 256});
  const auto dropped = [&](const char* place, int64_t position) {
    return nn::dropout(ones, rule_of(0.5, place), layout_of({2}, {position})).ne(0);
  };
  const at::Tensor mask = dropped("a", 1);
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return a.eq(b).to(at::kDouble).mean().item<double>();
  };
  EXPECT_EQ(same(mask, dropped("a", 1)), 1);
  for (const at::Tensor& other : {dropped("b", 1), dropped("a", 2), dropped("a", 1 + (int64_t{1} << 32))})
    EXPECT_NEAR(same(mask, other), 0.5, 0.12);
  EXPECT_NEAR(same(mask[0], mask[1]), 0.5, 0.16);
}

TEST(Dropout, RateZeroReturnsTheInput) {
  const at::Tensor x = random_tensor({3, 5}, 1);
  EXPECT_TRUE(nn::dropout(x, rule_of(0), layout_of({3})).is_same(x));
}

TEST(Dropout, ItsBitsAreTheMask) {
  const nn::LayoutPtr rows = layout_of({2, 3}, {7, 4});
  const nn::DropoutRule rule = rule_of(0.3);
  for (const int64_t width : {1, 16, 33, 1100}) {
    const at::Tensor x = random_tensor({5, width}, 1), bits = nn::dropout_mask(rule, *rows, x);
    EXPECT_EQ(bits.sizes(), at::IntArrayRef({5, nn::mask_bytes(width)}));
    EXPECT_TRUE(at::equal(nn::apply_mask(at::ones({5, width}), bits, 1).to(at::kDouble),
                          mask_of(rule, *rows, width).ne(0).to(at::kDouble)));
    EXPECT_TRUE(at::equal(nn::apply_mask(x, bits, rule.scale), nn::dropout(x, rule, rows)));
  }
}

}  // namespace
}  // namespace trainer::testing
