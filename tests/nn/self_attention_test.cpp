#include "models/nn/self_attention.h"
#include "models/nn/prefix.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

constexpr int64_t kWidth = 5;
const nn::AttentionOptions kGrouped{.heads = 4, .causal = true, .kv_heads = 2};

struct Rows {
  at::Tensor q, k, v;
};

/// Rows [from, from + n) of every sample of `layout`.
Rows cut(const Rows& all, const nn::Layout& layout, const std::vector<int64_t>& from, const std::vector<int64_t>& n) {
  std::vector<at::Tensor> q, k, v;
  for (int64_t s = 0; s < layout.samples(); ++s) {
    const int64_t begin = layout.spans[s].begin + from[s];
    q.push_back(all.q.narrow(0, begin, n[s]));
    k.push_back(all.k.narrow(0, begin, n[s]));
    v.push_back(all.v.narrow(0, begin, n[s]));
  }
  return {at::cat(q), at::cat(k), at::cat(v)};
}

// Prompts of different lengths (one with a single token, so an empty first pass), then tokens one by one.
TEST(SelfAttention, StepwiseDecodingMatchesTheWholeSample) {
  for (const int64_t window : {0, 3}) {
    const nn::AttentionOptions options{4, true, 0.5, {}, 2, window, 0.7};
    const std::vector<int64_t> prompts{4, 0, 7}, ends{8, 4, 11};
    const nn::LayoutPtr whole = layout_of(ends);
    const Rows all{random_tensor({whole->tokens(), 4 * kWidth}, 1), random_tensor({whole->tokens(), 2 * kWidth}, 2),
                   random_tensor({whole->tokens(), 2 * kWidth}, 3)};
    const at::Tensor expected = nn::self_attention(all.q, all.k, all.v, whole, options, {}, 0);
    nn::DecodeCache cache{.slots = 4, .capacity = 11, .slot = {0, 2, 3}, .lengths = {0, 0, 0}};
    nn::Pass pass;
    pass.cache = &cache;
    const auto step = [&](const std::vector<int64_t>& n) {
      const Rows next = cut(all, *whole, cache.lengths, n);
      const Rows wanted = cut({expected, all.k, all.v}, *whole, cache.lengths, n);
      cache.step = layout_of(n);
      const at::Tensor out = nn::self_attention(next.q, next.k, next.v, cache.step, options, pass, 1);
      EXPECT_TRUE(at::allclose(out, wanted.q, 1e-5, 1e-6)) << "after " << cache.lengths[0] << " tokens";
      EXPECT_TRUE(at::equal(nn::self_attention(next.q, next.k, next.v, cache.step, options, pass, 0), out));
      EXPECT_TRUE(at::equal(nn::self_attention(next.q, next.k, next.v, layout_of(n), options, pass, 0), out));
      for (size_t s = 0; s < n.size(); ++s) cache.lengths[s] += n[s];
    };
    step(prompts);
    for (int i = 0; i < 4; ++i) step({1, 1, 1});
    const Rows more = cut(all, *whole, {0, 0, 0}, {0, 0, 1});  // 12 tokens in a cache of 11
    EXPECT_THROW(nn::self_attention(more.q, more.k, more.v, layout_of({0, 0, 1}), options, pass, 1), InternalError);
  }
}

TEST(SelfAttention, AcceptsNoSamples) {
  const nn::LayoutPtr none = layout_of({});
  const at::Tensor q = random_tensor({0, 4 * kWidth}, 1), k = random_tensor({0, 2 * kWidth}, 2);
  EXPECT_EQ(nn::self_attention(q, k, k, none, kGrouped, {}, 0).sizes(), q.sizes());
  nn::DecodeCache cache{.capacity = 3};
  nn::Pass pass;
  pass.cache = &cache;
  EXPECT_EQ(nn::self_attention(q, k, k, none, kGrouped, pass, 0).sizes(), q.sizes());
}

TEST(SelfAttention, PositionsContinueAfterTheCache) {
  const nn::LayoutPtr layout = layout_of({3, 0, 2});
  const nn::Layout& rows = *layout;
  EXPECT_EQ(nn::row_positions(rows, {}), (std::vector<int64_t>{0, 1, 2, 0, 1}));
  nn::DecodeCache cache{.lengths = {5, 1, 7}};
  nn::Pass pass;
  pass.cache = &cache;
  EXPECT_EQ(nn::row_positions(rows, pass), (std::vector<int64_t>{5, 6, 7, 7, 8}));
  pass.prefix = std::make_shared<nn::Prefix>(nn::Prefix{.tokens = 3});
  EXPECT_EQ(nn::row_positions(rows, pass), (std::vector<int64_t>{8, 9, 10, 10, 11}));
}

}  // namespace
}  // namespace trainer::testing
