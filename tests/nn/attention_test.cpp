#include "models/nn/attention.h"

#include <functional>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/index.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/nn/reference/attention.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

struct Case {
  std::string name;
  nn::LayoutPtr queries, keys;
  int64_t head_width = 5;
  bool with_bias = true;
  nn::AttentionOptions options;

  int64_t kv_heads() const { return options.kv_heads > 0 ? options.kv_heads : options.heads; }
};

/// The reference: one sample and head at a time, every score by the formula.
at::Tensor plain(const Case& c, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) {
  const int64_t d = c.head_width;
  std::vector<at::Tensor> samples;
  for (int64_t s = 0; s < c.queries->samples(); ++s) {
    const nn::Span from = c.queries->spans[s], to = c.keys->spans[s];
    const at::Tensor i = at::arange(from.length).add(to.length - from.length).unsqueeze(1),
                     j = at::arange(to.length).unsqueeze(0);
    std::vector<at::Tensor> heads;
    for (int64_t h = 0; h < c.options.heads; ++h) {
      const auto part = [&](const at::Tensor& t, nn::Span span, int64_t head) {
        return t.narrow(0, span.begin, span.length).narrow(1, head * d, d);
      };
      const int64_t kv_head = h / (c.options.heads / c.kv_heads());
      at::Tensor scores = at::matmul(part(q, from, h), part(k, to, kv_head).t()) * c.options.scale;
      if (c.options.soft_cap > 0) scores = at::tanh(scores / c.options.soft_cap) * c.options.soft_cap;
      if (bias.defined()) scores = scores + bias.select(1, h).index({j - i + (bias.size(0) - 1) / 2});
      constexpr double kNever = -std::numeric_limits<double>::infinity();
      if (c.options.causal) scores = scores.masked_fill(j > i, kNever);
      if (c.options.window > 0) scores = scores.masked_fill((j - i).abs() >= c.options.window, kNever);
      at::Tensor p = at::softmax(scores, -1);
      if (c.options.dropout.active() && from.length > 0) {
        std::vector<at::Tensor> rows;
        for (int64_t row = 0; row < from.length; ++row)
          rows.push_back(mask_row(c.options.dropout, c.queries->sample_index[s], row, h, to.length));
        p = p * at::stack(rows);
      }
      heads.push_back(at::matmul(p, part(v, to, kv_head)));
    }
    samples.push_back(at::cat(heads, 1));
  }
  return samples.empty() ? q * 0 + (k.sum() + v.sum() + (bias.defined() ? bias.sum() : k.sum())) * 0 : at::cat(samples);
}

using Attention = std::function<decltype(nn::packed_attention)>;

void check(const Case& c, at::ScalarType dtype, const Attention& attention = nn::packed_attention) {
  const int64_t width = c.options.heads * c.head_width, kv_width = c.kv_heads() * c.head_width;
  std::vector<at::Tensor> inputs{random_tensor({c.queries->tokens(), width}, 1, dtype),
                                 random_tensor({c.keys->tokens(), kv_width}, 2, dtype),
                                 random_tensor({c.keys->tokens(), kv_width}, 3, dtype)};
  if (c.with_bias) {
    const int64_t length = std::max({c.queries->longest(), c.keys->longest(), int64_t{1}});
    // wider than needed: only its middle is used
    inputs.push_back(random_tensor({2 * length + 3, c.options.heads}, 4));
  }
  const auto bias = [&](const auto& in) { return in.size() > 3 ? in[3] : at::Tensor(); };
  expect_same(
      [&](const auto& in) { return attention(in[0], in[1], in[2], bias(in), c.queries, c.keys, c.options); },
      [&](const auto& in) { return plain(c, in[0], in[1], in[2], bias(in)); }, inputs, tolerance_of(dtype), c.name);
}

std::vector<Case> all_cases() {
  const auto rule = nn::dropout_rule(nn::philox_key(5, "attention"), 0.3);
  const nn::LayoutPtr rows = layout_of({3, 1, 7}, {4, 11, 2}), others = layout_of({5, 9, 2}, {4, 11, 2}),
                      none = layout_of({}), some = layout_of({0, 4, 0, 0, 2, 0}, {3, 1, 8, 2, 9, 0});
  std::vector<Case> all{
      {"self", rows, rows, 5, true, {3, false, 1.0, {}}},
      {"scaled without bias", rows, rows, 5, false, {3, false, 0.37, {}}},
      {"causal", rows, rows, 5, true, {3, true, 1.0, {}}},
      {"cross", rows, others, 8, false, {2, false, 1.0, {}}},
      {"cross with bias", rows, others, 8, true, {2, false, 1.0, {}}},
      {"one head of one", rows, rows, 1, true, {1, true, 1.0, {}}},
      {"dropout", rows, rows, 5, true, {3, false, 1.0, rule}},
      {"causal with dropout", rows, rows, 5, true, {3, true, 0.5, rule}},
      {"cross with dropout", rows, others, 64, false, {2, false, 0.125, rule}},
      {"keys of two chunks", layout_of({2}, {7}), layout_of({150}, {7}), 4, true, {2, false, 0.5, rule}},
      {"offset", layout_of({2, 2}), layout_of({6, 6}), 5, true, {3, true, 1.0, {}}},
      {"no samples", none, none, 5, true, {3, true, 1.0, rule}},
      {"grouped heads", rows, rows, 5, true, {6, true, 0.5, {}, 2}},
      {"grouped heads with dropout", rows, others, 5, false, {4, false, 0.5, rule, 1}},
      {"window", rows, rows, 5, true, {2, true, 0.5, {}, 0, 3}},
      {"window on both sides", rows, rows, 5, false, {2, false, 0.5, rule, 0, 2}},
      {"window of the token itself", rows, rows, 5, false, {2, true, 0.5, {}, 0, 1}},
      {"window with an offset", layout_of({2, 1}), layout_of({9, 3}), 5, false, {2, true, 0.5, rule, 1, 4}},
      {"empty samples", some, some, 5, true, {2, true, 0.5, rule, 1}},
      {"soft cap", rows, rows, 5, false, {2, true, 0.9, {}, 0, 0, 1.5}},
      {"soft cap beyond the scores", rows, rows, 5, false, {2, false, 0.1, {}, 0, 0, 50}},
      {"soft cap with a bias", rows, others, 5, true, {4, false, 0.9, {}, 2, 0, 0.8}},
      {"soft cap with all else", rows, rows, 5, true, {4, true, 0.9, rule, 2, 3, 1.2}}};
  // Longer than one block of rows, and longer than several.
  const nn::LayoutPtr one = layout_of({65, 64}, {3, 9}), more = layout_of({150, 7, 129}, {8, 0, 2});
  for (const auto& [long_rows, drawn] : {std::pair(one, rule), {more, nn::DropoutRule{}}}) {
    all.push_back({"long", long_rows, long_rows, 8, true, {2, false, 0.4, {}}});
    all.push_back({"long causal", long_rows, long_rows, 8, true, {4, true, 0.4, drawn, 2}});
    all.push_back({"long with a window", long_rows, long_rows, 8, false, {2, true, 0.4, drawn, 0, 50}});
    all.push_back({"long with a soft cap", long_rows, long_rows, 8, false, {4, true, 0.8, drawn, 2, 50, 2}});
    all.push_back({"long with a window on both sides", long_rows, long_rows, 8, false, {2, false, 0.4, {}, 1, 30}});
  }
  all.push_back({"long cross", layout_of({70, 3, 130}), more, 8, false, {2, false, 0.4, {}}});
  return all;
}

TEST(PackedAttention, MatchesTheReference) {
  for (const Case& c : all_cases()) check(c, at::kFloat);
}

TEST(PackedAttention, MatchesTheReferenceInBf16) {
  for (const Case& c : all_cases()) check(c, at::kBFloat16);
}

TEST(PackedAttention, TheReferenceLayerOfOneKeyHeadAtATimeToo) {
  const auto of_one = [](const auto&... in) { return nn::reference::packed_attention(in..., /*most_scores=*/1); };
  for (const Case& c : all_cases())
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) check(c, dtype, of_one);
}

TEST(PackedAttention, SamplesAttendOnlyToThemselves) {
  const nn::DropoutRule rule = nn::dropout_rule(nn::philox_key(5, "attention"), 0.3);
  const nn::AttentionOptions options{2, false, 0.5, rule};
  const at::Tensor bias = random_tensor({21, 2}, 9);
  const std::vector<int64_t> lengths{4, 6, 3}, positions{8, 1, 30};
  std::vector<at::Tensor> rows, alone;
  nn::Layout layout;
  for (size_t i : {2, 0, 1}) {
    rows.push_back(random_tensor({lengths[i], 12}, i));
    layout.append(lengths[i], positions[i]);
    const nn::LayoutPtr own = layout_of({lengths[i]}, {positions[i]});
    alone.push_back(nn::packed_attention(rows.back(), rows.back(), rows.back(), bias, own, own, options));
  }
  const auto all = std::make_shared<nn::Layout>(layout);
  const at::Tensor x = at::cat(rows);
  EXPECT_TRUE(at::equal(nn::packed_attention(x, x, x, bias, all, all, options), at::cat(alone)));
}

TEST(PackedAttention, BatchesAndThreadsChangeNoBit) {
  const nn::AttentionOptions options{4, true, 0.5, nn::dropout_rule(nn::philox_key(5, "attention"), 0.1), 2, 150};
  const auto run = [&](const nn::LayoutPtr& rows, std::vector<at::Tensor> in) {
    for (at::Tensor& t : in) t = t.detach().clone().set_requires_grad(true);
    const at::Tensor out = nn::packed_attention(in[0], in[1], in[2], {}, rows, rows, options);
    auto all = torch::autograd::grad({out}, in, {at::ones_like(out)});
    all.push_back(out);
    return all;
  };
  const std::vector<at::Tensor> in{random_tensor({320, 64}, 1), random_tensor({320, 32}, 2),
                                   random_tensor({320, 32}, 3)};
  std::vector<at::Tensor> last_rows;
  for (const at::Tensor& t : in) last_rows.push_back(t.narrow(0, 20, 300));
  const auto together = run(layout_of({20, 300}, {4, 7}), in), alone = run(layout_of({300}, {7}), last_rows);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  const auto otherwise = run(layout_of({20, 300}, {4, 7}), in);
  at::set_num_threads(threads);
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_TRUE(at::equal(together[i].narrow(0, 20, 300), alone[i])) << i;
    EXPECT_TRUE(at::equal(together[i], otherwise[i])) << i;
  }
}

TEST(PackedAttention, ReturnsZeroWithoutKeys) {
  const at::Tensor q = random_tensor({3, 8}, 1), none = random_tensor({0, 8}, 2);
  const at::Tensor out = nn::packed_attention(q, none, none, {}, layout_of({3}), layout_of({0}), {2});
  EXPECT_TRUE(at::equal(out, at::zeros_like(out)));
}

/// As with context parallelism, whose ranks have the keys of a whole sample and attend to some.
TEST(PackedAttention, KeysOfNoSampleHaveNoGradient) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor q = random_tensor({3, 8}, 1, dtype);
    std::vector<at::Tensor> keyed{random_tensor({9, 8}, 2, dtype), random_tensor({9, 8}, 3, dtype)};
    for (at::Tensor& t : keyed) t.set_requires_grad(true);
    const at::Tensor out = nn::packed_attention(q, keyed[0], keyed[1], {}, layout_of({3}), layout_of({4}), {2});
    for (int i = 0; i < 8; ++i) at::full_like(keyed[0], std::numeric_limits<double>::quiet_NaN());  // memory to reuse
    for (const at::Tensor& grad : torch::autograd::grad({out}, keyed, {at::ones_like(out)})) {
      EXPECT_GT(grad.narrow(0, 0, 4).abs().sum().item<double>(), 0);
      EXPECT_TRUE(at::equal(grad.narrow(0, 4, 5), at::zeros_like(grad.narrow(0, 4, 5))));
    }
  }
}

TEST(PackedAttention, DecodingStepMatchesTheLastRowOfTheFullPass) {
  constexpr int64_t kLength = 6, kHeads = 3, kWidth = 15;
  const nn::LayoutPtr full = layout_of({kLength, kLength});
  const at::Tensor q = random_tensor({2 * kLength, kWidth}, 1), k = random_tensor({2 * kLength, kWidth}, 2),
                   v = random_tensor({2 * kLength, kWidth}, 3), bias = random_tensor({2 * kLength - 1, kHeads}, 4);
  const at::Tensor whole =
      nn::packed_attention(q, k, v, bias, full, full, {kHeads, true, 1.0, {}}).view({2, kLength, kWidth});
  for (int64_t step = 0; step < kLength; ++step) {
    const auto until = [&](const at::Tensor& t) {
      return t.view({2, kLength, kWidth}).narrow(1, 0, step + 1).reshape({-1, kWidth});
    };
    const at::Tensor last = q.view({2, kLength, kWidth}).select(1, step).contiguous();
    // The bias of this length, as the decoder computes it in each step.
    const at::Tensor shorter = bias.narrow(0, kLength - 1 - step, 2 * step + 1);
    const at::Tensor out = nn::packed_attention(last, until(k), until(v), shorter, layout_of({1, 1}),
                                                layout_of({step + 1, step + 1}), {kHeads, true, 1.0, {}});
    EXPECT_TRUE(at::allclose(out, whole.select(1, step), 1e-5, 1e-6)) << "step " << step;
  }
}

// Samples with one query, among others: some keys, one key, none, and rows of the cache that belong to no sample.
TEST(PackedAttention, SingleQueriesOfADecodingStepAreAsInBlocks) {
  const int threads = at::get_num_threads();
  const nn::LayoutPtr queries = layout_of({1, 3, 1, 0, 1, 1}), keys = layout_of({7, 5, 90, 2, 1, 0});
  auto apart = std::make_shared<nn::Layout>(*keys);
  for (size_t s = 0; s < apart->spans.size(); ++s) apart->spans[s].begin += 3 * static_cast<int64_t>(s);
  constexpr int64_t kHeads = 6, kD = 20;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t kv_heads : {0, 2})
      for (const int64_t window : {0, 4})
        for (const double soft_cap : {0.0, 0.8}) {
          SCOPED_TRACE(::testing::Message() << dtype << ", " << kv_heads << " key/value heads, window " << window
                                            << ", soft cap " << soft_cap);
          nn::AttentionOptions options{kHeads, true, 0.3, {}, kv_heads, window, soft_cap};
          const int64_t width = (kv_heads > 0 ? kv_heads : kHeads) * kD;
          const at::Tensor q = random_tensor({queries->tokens(), kHeads * kD}, 1, dtype),
                           k = random_tensor({apart->tokens(), width}, 2, dtype),
                           v = random_tensor({apart->tokens(), width}, 3, dtype),
                           bias = kv_heads > 0 ? at::Tensor() : random_tensor({2 * 90 - 1, kHeads}, 4);
          const at::Tensor expected = nn::packed_attention(q, k, v, bias, queries, apart, options);
          options.decoding = true;
          const at::Tensor out = nn::packed_attention(q, k, v, bias, queries, apart, options);
          EXPECT_TRUE(at::allclose(out.to(at::kFloat), expected.to(at::kFloat), dtype == at::kFloat ? 1e-5 : 1e-2,
                                   dtype == at::kFloat ? 1e-6 : 1e-2));
          for (const int count : {1, 4}) {  // parts of a sample's heads on each thread
            at::set_num_threads(count);
            EXPECT_TRUE(at::equal(nn::packed_attention(q, k, v, bias, queries, apart, options), out)) << count;
          }
          at::set_num_threads(threads);
          for (size_t s = 0; s < apart->spans.size(); ++s) {
            const nn::Span own = queries->spans[s], all = apart->spans[s];
            EXPECT_TRUE(at::equal(
                nn::packed_attention(q.narrow(0, own.begin, own.length), k.narrow(0, all.begin, all.length),
                                     v.narrow(0, all.begin, all.length), bias, layout_of({own.length}),
                                     layout_of({all.length}), options),
                out.narrow(0, own.begin, own.length)))
                << "sample " << s << " alone";
          }
        }
}

TEST(PackedAttention, LargeScoresDoNotOverflow) {
  const nn::LayoutPtr rows = layout_of({3});
  const at::Tensor x = 100 * random_tensor({3, 8}, 1), v = random_tensor({3, 8}, 2);
  const Case c{"large", rows, rows, 8, false, {1, false, 1.0, {}}};
  const at::Tensor out = nn::packed_attention(x, x, v, {}, rows, rows, c.options);
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  EXPECT_TRUE(at::allclose(wide(out), plain(c, wide(x), wide(x), wide(v), {}), 1e-4, 1e-5));
}

}  // namespace
}  // namespace trainer::testing
