#include "models/nn/embedding_noise.h"

#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "models/nn/reference/reference.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

constexpr double kAlpha = 5;

nn::PhiloxKey key() {
  return nn::philox_key(5, "embeddings");
}

/// By definition, in fp64.
at::Tensor noise_of(const nn::Layout& layout, int64_t width) {
  at::Tensor noise = at::empty({layout.tokens(), width}, at::kDouble);
  double* next = noise.data_ptr<double>();
  for (int64_t s = 0; s < layout.samples(); ++s)
    for (int64_t i = 0; i < layout.spans[s].length; ++i)
      for (int64_t e = 0; e < width; ++e) {
        const double drawn = draw_of(key(), layout.sample_index[s], layout.start(s) + i, 0, e);
        const double most = kAlpha / std::sqrt(static_cast<double>(layout.length_of_sample(s) * width));
        *next++ = most * ((2 * drawn + 1) / 65536 - 1);
      }
  return noise;
}

TEST(EmbeddingNoise, MatchesItsDefinition) {
  for (const bool by_operators : {false, true})
    for (const int64_t width : {1, 37, 128, 200, 1100})
      for (const auto& lengths : std::vector<std::vector<int64_t>>{{3, 1, 4}, {1}, {}}) {
        std::optional<nn::ReferenceEverywhere> reference;
        if (by_operators) reference.emplace();
        const nn::LayoutPtr rows = layout_of(
            lengths, lengths.size() == 3 ? std::vector<int64_t>{9, 2, int64_t{3} << 33} : std::vector<int64_t>{});
        const at::Tensor noise = noise_of(*rows, width);
        expect_same([&](const auto& in) { return nn::add_noise(in[0], key(), kAlpha, rows); },
                    [&](const auto& in) { return in[0] + noise; }, {random_tensor({rows->tokens(), width}, 1)},
                    kFloatTolerance, "width " + std::to_string(width));
      }
}

TEST(EmbeddingNoise, IsUniformWithinItsBounds) {
  constexpr int64_t kTokens = 1000, kWidth = 1000;
  const at::Tensor noise = nn::add_noise(at::zeros({kTokens, kWidth}), key(), kAlpha, layout_of({kTokens}));
  const double most = kAlpha / std::sqrt(kTokens * kWidth), deviation = most / std::sqrt(3);
  EXPECT_LT(noise.abs().max().item<double>(), most);
  EXPECT_GT(noise.abs().max().item<double>(), 0.999 * most);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 5 * deviation / std::sqrt(kTokens * kWidth));
  EXPECT_NEAR(noise.std().item<double>(), deviation, 0.005 * deviation);
}

TEST(EmbeddingNoise, OfASampleDependsOnNothingElse) {
  const at::Tensor all = nn::add_noise(at::zeros({8, 37}), key(), kAlpha, layout_of({3, 5}, {4, 7}));
  EXPECT_TRUE(at::equal(nn::add_noise(at::zeros({5, 37}), key(), kAlpha, layout_of({5}, {7})), all.narrow(0, 3, 5)));
  nn::Layout slice = *layout_of({2}, {7});  // of context parallelism: the last two tokens of the second sample
  slice.slices = {{.start = 3, .of = 5}};
  const auto rows = std::make_shared<const nn::Layout>(slice);
  EXPECT_TRUE(at::equal(nn::add_noise(at::zeros({2, 37}), key(), kAlpha, rows), all.narrow(0, 6, 2)));
  EXPECT_FALSE(at::equal(nn::add_noise(at::zeros({5, 37}), key(), kAlpha, layout_of({5}, {8})), all.narrow(0, 3, 5)));
}

TEST(EmbeddingNoise, IsDrawnWhereAPassAsksForIt) {
  const nn::Rows x{random_tensor({8, 37}, 1), layout_of({3, 5})};
  nn::Pass pass;
  pass.training = true;
  EXPECT_TRUE(nn::with_noise(x, pass, "a").x.is_same(x.x));
  pass.embedding_noise = kAlpha;
  EXPECT_FALSE(at::equal(nn::with_noise(x, pass, "a").x, nn::with_noise(x, pass, "b").x));
}

}  // namespace
}  // namespace trainer::testing
