#include "models/nn/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

at::Tensor labels_of(const std::vector<int64_t>& values) {
  at::Tensor labels = at::zeros({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), labels.data_ptr<int64_t>());
  return labels;
}

at::Tensor plain(const at::Tensor& logits, const at::Tensor& labels) {
  at::Tensor sum = logits.sum() * 0;
  for (int64_t row = 0; row < labels.size(0); ++row)
    if (const int64_t label = labels[row].item<int64_t>(); label != -100)
      sum = sum + at::logsumexp(logits[row], 0) - logits[row][label];
  return sum;
}

TEST(CrossEntropy, IsThePlainSumOverLabelsThatCount) {
  const std::vector<std::vector<int64_t>> cases{{0, 52, -100, 7, -100, 7}, {3}, {-100, -100}, {}};
  for (const auto& values : cases)
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor labels = labels_of(values), logits = 4 * random_tensor({labels.size(0), 53}, 1).to(dtype);
      EXPECT_EQ(nn::cross_entropy_sum(logits, labels).scalar_type(), at::kFloat);
      expect_same([&](const auto& in) { return nn::cross_entropy_sum(in[0], labels); },
                  [&](const auto& in) { return plain(in[0], labels); }, {logits}, tolerance_of(dtype),
                  std::to_string(values.size()) + " labels");
    }
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  at::Tensor logits = at::zeros({1, 3});
  logits[0][1] = 1e4;
  EXPECT_FLOAT_EQ(nn::cross_entropy_sum(logits, labels_of({1})).item<float>(), 0);
  EXPECT_FLOAT_EQ(nn::cross_entropy_sum(logits, labels_of({2})).item<float>(), 1e4F);
}

}  // namespace
}  // namespace trainer::testing
