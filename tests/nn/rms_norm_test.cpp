#include "models/nn/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rsqrt.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

at::Tensor plain(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * (x * x).mean(-1, true).add(eps).rsqrt() * weight;
}

TEST(RmsNorm, MatchesTheReference) {
  const std::vector<std::vector<int64_t>> shapes{{1, 2}, {5, 3}, {130, 17}, {3, 1000}, {0, 8}};
  for (const auto& shape : shapes)
    for (const double eps : {1e-6, 0.5})
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
        expect_same([&](const auto& in) { return nn::rms_norm(in[0], in[1], eps, dtype); },
                    [&](const auto& in) { return plain(in[0], in[1], eps); },
                    {random_tensor(shape, 1), random_tensor({shape[1]}, 2)}, tolerance_of(dtype),
                    std::to_string(shape[0]) + " x " + std::to_string(shape[1]));
}

TEST(RmsNorm, NormalizesHeadsAsRows) {
  const at::Tensor x = random_tensor({7, 12}, 1, at::kBFloat16), weight = random_tensor({4}, 2);
  expect_same(
      [&](const auto& in) {
        return nn::rms_norm(in[0].view({21, 4}), in[1], 1e-6, at::kBFloat16).view({7, 12});
      },
      [&](const auto& in) {
        return plain(in[0].view({7, 3, 4}), in[1], 1e-6).reshape({7, 12});
      },
      {x, weight}, kBf16Tolerance, "three heads");
}

// LlamaRMSNorm of transformers: weight * normalized.to(input dtype).
TEST(RmsNorm, RoundsBeforeTheWeightLikeLlama) {
  const at::Tensor x = random_tensor({9, 33}, 1, at::kBFloat16), weight = random_tensor({33}, 2, at::kBFloat16);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor llama = weight * (wide * (wide * wide).mean(-1, true).add(1e-5).rsqrt()).to(at::kBFloat16);
  const auto ours = [&](nn::RmsRounding rounding) { return nn::rms_norm(x, weight, 1e-5, at::kBFloat16, rounding); };
  EXPECT_TRUE(at::equal(ours(nn::RmsRounding::kBeforeWeight), llama));
  EXPECT_FALSE(at::equal(ours(nn::RmsRounding::kOnce), llama));
  expect_same(
      [&](const auto& in) { return nn::rms_norm(in[0], in[1], 1e-5, at::kBFloat16, nn::RmsRounding::kBeforeWeight); },
      [&](const auto& in) { return plain(in[0], in[1], 1e-5); }, {x, weight}, kBf16Tolerance, "rounded");
}

TEST(RmsNorm, FrozenWeightGetsNoGradient) {
  const at::Tensor x = random_tensor({4, 6}, 1).set_requires_grad(true), weight = random_tensor({6}, 2);
  torch::autograd::backward({nn::rms_norm(x, weight, 1e-6, at::kFloat).sum()}, {});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

TEST(RmsNorm, AcceptsAFrozenWeightInBf16) {
  const at::Tensor kept = random_tensor({6}, 2).to(at::kBFloat16);
  const at::Tensor one = random_tensor({4, 6}, 1).set_requires_grad(true),
                   other = random_tensor({4, 6}, 1).set_requires_grad(true);
  const at::Tensor from_kept = nn::rms_norm(one, kept, 1e-6, at::kFloat),
                   from_float = nn::rms_norm(other, kept.to(at::kFloat), 1e-6, at::kFloat);
  EXPECT_TRUE(at::equal(from_kept, from_float));
  torch::autograd::backward({from_kept.sum()}, {});
  torch::autograd::backward({from_float.sum()}, {});
  EXPECT_TRUE(at::equal(one.grad(), other.grad()));
}

TEST(RmsNorm, ThreadsChangeNoBit) {
  const int before = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> gradients;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const at::Tensor x = random_tensor({300, 130}, 1).set_requires_grad(true),
                     weight = random_tensor({130}, 2).set_requires_grad(true);
    torch::autograd::backward({nn::rms_norm(x, weight, 1e-6, at::kFloat)}, {random_tensor({300, 130}, 3)});
    gradients.push_back({x.grad(), weight.grad()});
  }
  at::set_num_threads(before);
  for (size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i])) << i;
}

}  // namespace
}  // namespace trainer::testing
