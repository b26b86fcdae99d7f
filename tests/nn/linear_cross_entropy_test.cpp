#include "models/nn/linear_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "models/nn/cross_entropy.h"
#include "models/nn/four_bit.h"
#include "models/nn/soft_cap.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

constexpr int64_t kWidth = 19, kVocabulary = 53;

at::Tensor labels_of(const std::vector<int64_t>& values) {
  at::Tensor labels = at::zeros({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), labels.data_ptr<int64_t>());
  return labels;
}

struct Case {
  std::vector<int64_t> labels;
  int64_t rows_of_chunk = 0;
  double soft_cap = 0, smoothing = 0;
  float assumed = 1;  // the gradient that forward expects
};

nn::Linear head_of(const at::Tensor& weight) {
  return nn::Linear(weight.size(1), weight.size(0), false, {});
}

at::Tensor loss_of(nn::Linear& head, const at::Tensor& x, const Case& c) {
  nn::Pass pass;
  pass.compute = x.scalar_type();
  pass.label_smoothing = c.smoothing;
  pass.loss_grad = c.assumed;
  return nn::linear_cross_entropy_sum(head, {x}, labels_of(c.labels), pass, {c.soft_cap, nullptr, c.rows_of_chunk});
}

at::Tensor loss_of(const std::vector<at::Tensor>& in, const Case& c) {
  nn::Linear head = head_of(in[1]);
  head.weight()->value = in[1];
  return loss_of(head, in[0], c);
}

/// By definition, row by row.
at::Tensor defined_loss(const std::vector<at::Tensor>& in, const Case& c) {
  at::Tensor logits = at::mm(in[0], in[1].t()), sum = logits.sum() * 0;
  if (c.soft_cap > 0) logits = at::tanh(logits / c.soft_cap) * c.soft_cap;
  for (int64_t row = 0; row < logits.size(0); ++row)
    if (const int64_t label = c.labels[static_cast<size_t>(row)]; label != -100)
      sum = sum + at::logsumexp(logits[row], 0) - (1 - c.smoothing) * logits[row][label] -
            c.smoothing * logits[row].mean();
  return sum;
}

std::vector<at::Tensor> inputs_for(const Case& c, at::ScalarType dtype = at::kFloat) {
  const auto rows = static_cast<int64_t>(c.labels.size());
  return {random_tensor({rows, kWidth}, 1, dtype), random_tensor({kVocabulary, kWidth}, 2, dtype)};
}

const std::vector<std::vector<int64_t>> kLabels{
    {0, 52, -100, 7, -100, 7, 30}, {3}, {-100, -100}, {}, {1, 2, 3, 4, 5, 6}};

TEST(LinearCrossEntropy, MatchesTheReferenceInChunksOfEverySize) {
  for (const auto& labels : kLabels)
    for (const int64_t rows : {0, 1, 2, 3, 5, 6, 100})
      for (const double cap : {0.0, 5.0})
        for (const double smoothing : {0.0, 0.1}) {
          const Case c{labels, rows, cap, smoothing, 0.3F};
          expect_same([&](const auto& in) { return loss_of(in, c); },
                      [&](const auto& in) { return defined_loss(in, c); }, inputs_for(c), kFloatTolerance,
                      fmt::format("{} labels, chunks of {}, cap {}", labels.size(), rows, cap));
        }
}

// The gradients of bf16 are rounded once more than in fp32: the slopes, in the dtype of the logits.
TEST(LinearCrossEntropy, MatchesTheReferenceInHalfPrecision) {
  for (const auto dtype : {at::kBFloat16, at::kHalf})
    for (const int64_t rows : {0, 2, 3}) {
      const Case c{kLabels[0], rows, 0, 0.1};
      expect_same([&](const auto& in) { return loss_of(in, c); }, [&](const auto& in) { return defined_loss(in, c); },
                  inputs_for(c, dtype), kBf16Tolerance, fmt::format("chunks of {}", rows));
    }
}

struct Found {
  at::Tensor loss, x_grad, weight_grad;
};
Found found(const std::vector<at::Tensor>& in, const Case& c, double gradient = 1) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& tensor : in) leaves.push_back(tensor.detach().clone().set_requires_grad(true));
  const at::Tensor loss = loss_of(leaves, c);
  const auto grads = torch::autograd::grad({loss}, leaves, {at::full({}, gradient)});
  return {loss.detach(), grads[0], grads[1]};
}

// In one chunk the products have the same shapes, so this also holds for their roundings.
TEST(LinearCrossEntropy, OneChunkGivesTheBitsOfSeparateLayers) {
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for (const double cap : {0.0, 5.0}) {
      Case c{kLabels[4], 0, cap, 0.1, 0.37F};
      const auto in = inputs_for(c, dtype);
      std::vector<at::Tensor> leaves;
      for (const at::Tensor& tensor : in) leaves.push_back(tensor.clone().set_requires_grad(true));
      const at::Tensor logits = at::linear(leaves[0], leaves[1]);
      const at::Tensor loss =
          nn::cross_entropy_sum(cap > 0 ? nn::soft_cap(logits, cap) : logits, labels_of(c.labels), c.smoothing);
      const auto grads = torch::autograd::grad({loss}, leaves, {at::full({}, 0.37F)});
      const Found chunked = found(in, c, 0.37F);
      EXPECT_TRUE(at::equal(chunked.loss, loss.detach()));
      const double tolerance = cap > 0 ? tolerance_of(dtype) : 0;  // reference layers cap with another formula
      for (const auto& [ours, theirs] : {std::pair{chunked.x_grad, grads[0]}, {chunked.weight_grad, grads[1]}})
        EXPECT_LE((ours - theirs).to(at::kDouble).norm().item<double>(),
                  tolerance * theirs.to(at::kDouble).norm().item<double>());
    }
}

TEST(LinearCrossEntropy, ChunksChangeALossByARoundingAtMost) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 301; ++i) labels.push_back(i * 7 % kVocabulary);
  const auto in = inputs_for({labels});
  const double whole = found(in, {labels}).loss.item<double>();
  for (const int64_t rows : {1, 16, 100, 150, 300})
    EXPECT_NEAR(found(in, {labels, rows}).loss.item<double>(), whole, 1e-6 * whole) << rows;
}

TEST(LinearCrossEntropy, AssumedGradientChangesOnlyRoundings) {
  const Case c{kLabels[0], 3};
  const auto in = inputs_for(c);
  const Found exact = found(in, {c.labels, 3, 0, 0, 5.0F}, 5);
  for (const float assumed : {1.0F, 0.001F, 4096.0F}) {
    const Found other = found(in, {c.labels, 3, 0, 0, assumed}, 5);
    for (const auto& [a, b] : {std::pair{exact.x_grad, other.x_grad}, {exact.weight_grad, other.weight_grad}})
      EXPECT_LT((a - b).norm().item<double>(), 1e-6 * a.norm().item<double>()) << assumed;
  }
}

// 1e-8 of the gradient reaches each of most logits: less than fp16 has, unless the loss is scaled first.
TEST(LinearCrossEntropy, AppliesTheLossScaleBeforeFp16Rounds) {
  std::vector<int64_t> labels{0};
  at::Tensor x = at::full({1, 1}, 1.0).to(at::kHalf), weight = at::zeros({kVocabulary, 1}).to(at::kHalf);
  weight[0][0] = 18;
  const Found scaled = found({x, weight}, {labels, 0, 0, 0, 65536.0F}, 65536);
  const double expected = 65536 / (std::exp(18.0) + kVocabulary - 1);
  EXPECT_NEAR(scaled.weight_grad[5].item<double>(), expected, 0.01 * expected);
}

TEST(LinearCrossEntropy, GivesOnlyTheGradientsThatAreWanted) {
  const Case c{kLabels[0], 3};
  const auto in = inputs_for(c);
  const Found both = found(in, c);
  for (const size_t wanted : {0, 1}) {
    std::vector<at::Tensor> leaves{in[0].clone(), in[1].clone()};
    leaves[wanted].set_requires_grad(true);
    const at::Tensor loss = loss_of(leaves, c);
    EXPECT_TRUE(at::equal(loss.detach(), both.loss));
    EXPECT_TRUE(at::equal(torch::autograd::grad({loss}, {leaves[wanted]}, {})[0],
                          wanted == 0 ? both.x_grad : both.weight_grad));
  }
  EXPECT_FALSE(loss_of(in, c).requires_grad());
  const at::NoGradGuard evaluation;
  EXPECT_TRUE(at::equal(loss_of({in[0].clone().set_requires_grad(true), in[1]}, c), both.loss));
}

TEST(LinearCrossEntropy, TrainsMasterWeightsInFp32) {
  const Case c{kLabels[4], 2};
  const auto in = inputs_for(c, at::kBFloat16);
  nn::Linear head = head_of(in[1]);
  head.weight()->value = in[1].to(at::kFloat).set_requires_grad(true);
  const at::Tensor grad = torch::autograd::grad({loss_of(head, in[0], c)}, {head.weight()->value}, {})[0];
  EXPECT_EQ(grad.scalar_type(), at::kFloat);
  const at::Tensor other = found(in, c).weight_grad.to(at::kFloat);
  EXPECT_LT((grad - other).norm().item<double>(), kBf16Tolerance * other.norm().item<double>());
}

TEST(LinearCrossEntropy, DecodesAFrozenWeight) {
  const Case c{{1, 2, 3, 4, 5, 6}, 4};
  const at::Tensor x = random_tensor({6, 64}, 1), values = random_tensor({kVocabulary, 64}, 2);
  nn::Linear head = head_of(values);
  head.weight()->storage = nn::four_bits(nn::FourBits::kNf4, /*double_quantized=*/false);
  head.weight()->value = head.weight()->storage.encode(values);
  const at::Tensor decoded = head.weight()->values(at::kFloat);
  EXPECT_TRUE(at::equal(loss_of(head, x, c), loss_of({x, decoded}, c)));
}

/// Like an adapter of the head.
class Doubled : public nn::Linear {
 public:
  explicit Doubled(const nn::Linear& base) : Linear(base) {}

 protected:
  at::Tensor project(const nn::Rows& x, const nn::Pass& pass) const override { return 2 * Linear::project(x, pass); }
};

TEST(LinearCrossEntropy, RunsTheForwardOfAnAdapter) {
  const Case c{kLabels[0], 3, 5.0};
  const auto in = inputs_for(c);
  nn::Linear base = head_of(in[1]);
  base.weight()->value = in[1];
  Doubled head(base);
  EXPECT_FLOAT_EQ(loss_of(head, in[0], c).item<float>(), loss_of({in[0], 2 * in[1]}, c).item<float>());
}

TEST(LinearCrossEntropy, RunsWithoutValues) {
  const auto meta = at::TensorOptions(at::kMeta).dtype(at::kBFloat16);
  const at::Tensor x = at::empty({40, 64}, meta).set_requires_grad(true);
  nn::Linear head(64, 1000, false, {});
  head.weight()->value = at::empty({1000, 64}, meta).set_requires_grad(true);
  nn::Pass pass;
  pass.compute = at::kBFloat16;
  const at::Tensor labels = at::empty({40}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  const at::Tensor loss = nn::linear_cross_entropy_sum(head, {x}, labels, pass, {5.0, nullptr, 7});
  EXPECT_TRUE(loss.is_meta());
  const auto grads = torch::autograd::grad({loss}, {x, head.weight()->value}, {at::empty_like(loss)});
  EXPECT_EQ(grads[1].sizes(), at::IntArrayRef({1000, 64}));
  EXPECT_EQ(grads[1].scalar_type(), at::kBFloat16);
}

TEST(LinearCrossEntropy, RefusesALabelBeyondTheVocabulary) {
  const Case c{{kVocabulary}};
  EXPECT_THROW(loss_of(inputs_for(c), c), InternalError);
}

}  // namespace
}  // namespace trainer::testing
