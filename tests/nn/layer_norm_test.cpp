#include "models/nn/layer_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rsqrt.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

at::Tensor plain(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor apart = x - x.mean(-1, true);
  return apart * (apart * apart).mean(-1, true).add(eps).rsqrt() * weight;
}

TEST(LayerNorm, MatchesTheReference) {
  const std::vector<std::vector<int64_t>> shapes{{5, 3}, {130, 17}, {3, 1000}, {0, 8}};
  for (const auto& shape : shapes)
    for (const double eps : {1e-12, 1e-5, 0.5})
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
        expect_same([&](const auto& in) { return nn::layer_norm(in[0], in[1], in[2], eps, dtype); },
                    [&](const auto& in) { return plain(in[0], in[1], eps) + in[2]; },
                    {3 + random_tensor(shape, 1), random_tensor({shape[1]}, 2), random_tensor({shape[1]}, 3)},
                    2 * tolerance_of(dtype), std::to_string(shape[0]) + " x " + std::to_string(shape[1]));
}

TEST(LayerNorm, MatchesTorch) {
  const at::Tensor x = random_tensor({11, 96}, 1), weight = random_tensor({96}, 2), bias = random_tensor({96}, 3);
  const at::Tensor theirs = std::get<0>(at::native_layer_norm(x, {96}, weight, bias, 1e-5));
  EXPECT_LT((nn::layer_norm(x, weight, bias, 1e-5, at::kFloat) - theirs).abs().max().item<float>(), 2e-6F);
}

TEST(LayerNorm, AcceptsNoBias) {
  expect_same([&](const auto& in) { return nn::layer_norm(in[0], in[1], {}, 1e-5, at::kFloat); },
              [&](const auto& in) { return plain(in[0], in[1], 1e-5); },
              {random_tensor({4, 9}, 1), random_tensor({9}, 2)}, kFloatTolerance, "no bias");
}

TEST(LayerNorm, FrozenWeightGetsNoGradient) {
  const at::Tensor x = random_tensor({4, 6}, 1).set_requires_grad(true), weight = random_tensor({6}, 2, at::kBFloat16),
                   bias = random_tensor({6}, 3);
  torch::autograd::backward({nn::layer_norm(x, weight, bias, 1e-6, at::kFloat).sum()}, {});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_FALSE(bias.grad().defined());
}

TEST(LayerNorm, LargeMeanDoesNotCancel) {
  const at::Tensor x = 1000 + random_tensor({2, 64}, 1), weight = at::full({64}, 1.0F);
  const at::Tensor exact = plain(x.to(at::kDouble), weight.to(at::kDouble), 1e-5);
  EXPECT_LT((nn::layer_norm(x, weight, {}, 1e-5, at::kFloat) - exact).abs().max().item<double>(), 1e-3);
}

TEST(LayerNorm, ThreadsChangeNoBit) {
  const int before = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> gradients;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const at::Tensor x = random_tensor({300, 130}, 1).set_requires_grad(true),
                     weight = random_tensor({130}, 2).set_requires_grad(true), bias = random_tensor({130}, 4).set_requires_grad(true);
    torch::autograd::backward({nn::layer_norm(x, weight, bias, 1e-5, at::kFloat)}, {random_tensor({300, 130}, 3)});
    gradients.push_back({x.grad(), weight.grad(), bias.grad()});
  }
  at::set_num_threads(before);
  for (size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i])) << i;
}

}  // namespace
}  // namespace trainer::testing
