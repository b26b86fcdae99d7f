#include "models/nn/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/base/errors.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

at::Tensor labels_of(const std::vector<int64_t>& values) {
  at::Tensor labels = at::zeros({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), labels.data_ptr<int64_t>());
  return labels;
}

at::Tensor plain(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  at::Tensor sum = logits.sum() * 0;
  for (int64_t row = 0; row < labels.size(0); ++row)
    if (const int64_t label = labels[row].item<int64_t>(); label != -100)
      sum = sum + at::logsumexp(logits[row], 0) - (1 - smoothing) * logits[row][label] - smoothing * logits[row].mean();
  return sum;
}

TEST(CrossEntropy, MatchesTheReferenceOverLabelsThatCount) {
  const std::vector<std::vector<int64_t>> cases{{0, 52, -100, 7, -100, 7}, {3}, {-100, -100}, {}};
  for (const auto& values : cases)
    for (const auto& [dtype, smoothing] : {std::pair(at::kFloat, 0.0), {at::kFloat, 0.1}, {at::kBFloat16, 0.1}}) {
      const at::Tensor labels = labels_of(values), logits = 4 * random_tensor({labels.size(0), 53}, 1).to(dtype);
      EXPECT_EQ(nn::cross_entropy_sum(logits, labels).scalar_type(), at::kFloat);
      expect_same([&](const auto& in) { return nn::cross_entropy_sum(in[0], labels, smoothing); },
                  [&](const auto& in) { return plain(in[0], labels, smoothing); }, {logits}, tolerance_of(dtype),
                  std::to_string(values.size()) + " labels");
    }
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  at::Tensor logits = at::zeros({1, 3});
  logits[0][1] = 1e4;
  EXPECT_FLOAT_EQ(nn::cross_entropy_sum(logits, labels_of({1})).item<float>(), 0);
  EXPECT_FLOAT_EQ(nn::cross_entropy_sum(logits, labels_of({2})).item<float>(), 1e4F);
}

TEST(CrossEntropy, IsExactForALargeVocabulary) {
  const at::Tensor logits = 3 * random_tensor({3, 50001}, 1), labels = labels_of({17, 50000, 0});
  expect_same([&](const auto& in) { return nn::cross_entropy_sum(in[0], labels, 0.2); },
              [&](const auto& in) { return plain(in[0], labels, 0.2); }, {logits}, 1e-6, "three rows");
}

// Values from torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1).
TEST(CrossEntropy, SmoothsLikeTorch) {
  at::Tensor logits = at::zeros({2, 3});
  logits[0][0] = 2, logits[1][2] = -1;
  EXPECT_NEAR(nn::cross_entropy_sum(logits, labels_of({0, 2}), 0.1).item<double>(), 2.168206237, 1e-6);
}

TEST(CrossEntropy, RunsWithoutValues) {
  const at::Tensor logits =
      at::empty({4, 1000}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16)).set_requires_grad(true);
  const at::Tensor labels = at::empty({4}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  const at::Tensor loss = nn::cross_entropy_sum(logits, labels);
  EXPECT_TRUE(loss.is_meta());
  EXPECT_EQ(torch::autograd::grad({loss}, {logits}, {at::empty_like(loss)})[0].scalar_type(), at::kBFloat16);
}

TEST(CrossEntropy, RefusesALabelBeyondTheLogits) {
  EXPECT_THROW(nn::cross_entropy_sum(at::zeros({1, 3}), labels_of({3})), InternalError);
  EXPECT_THROW(nn::cross_entropy_sum(at::zeros({1, 3}), labels_of({-1})), InternalError);
}

TEST(CrossEntropy, PropagatesNan) {
  const at::Tensor logits = at::full({1, 5}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(nn::cross_entropy_sum(logits, labels_of({3})).item<float>()));
}

}  // namespace
}  // namespace trainer::testing
