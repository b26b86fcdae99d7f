// Rows that several layers read: their gradient is that of autograd's sums.
#include "models/nn/shared_gradient.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "models/nn/four_bit.h"
#include "models/nn/linear.h"
#include "models/nn/reference/reference.h"
#include "models/nn/rows.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

using nn::Linear;

/// A layer of 64 inputs with random values; frozen ones may be packed.
std::unique_ptr<Linear> layer_of(int64_t out, bool bias, bool trained, bool packed = false,
                                 Linear::Stored stored = Linear::Stored::kOutIn) {
  auto layer = std::make_unique<Linear>(64, out, bias, nn::Init{}, stored);
  nn::Parameter& weight = *layer->weight();
  weight.value = random_tensor(weight.shape, static_cast<uint64_t>(out));
  if (packed) {
    weight.storage = nn::four_bits(nn::FourBits::kNf4, false);
    weight.storage.transposed = stored == Linear::Stored::kInOut;
    const at::Tensor rows = weight.storage.transposed ? weight.value.t().contiguous() : weight.value;
    weight.value = weight.storage.encode(rows);
  }
  if (trained) weight.value.requires_grad_(true);
  if (bias) layer->bias()->value = random_tensor({out}, 1).requires_grad_(trained);
  return layer;
}

struct Outcome {
  at::Tensor x_grad, weight_grad;
};

/// Of five layers that read the same rows, and of an operator.
using Layers = std::vector<std::unique_ptr<Linear>>;

Outcome outcome(const Layers& layers, const at::Tensor& values, bool shared) {
  const at::Tensor x = values.clone().requires_grad_(true);
  const nn::Rows plain{x * 1}, rows = shared ? nn::share_gradient(plain) : plain;
  EXPECT_EQ(rows.gradient != nullptr, shared);
  at::Tensor sum = rows.x.square().sum();
  for (const auto& layer : layers) sum = sum + (*layer)(rows, {}).x.square().sum();
  at::Tensor& weight = layers.back()->weight()->value;
  weight.mutable_grad() = at::Tensor();
  torch::autograd::backward({sum}, {});
  return {x.grad(), weight.grad().clone()};
}

TEST(SharedGradient, IsTheSumOfThoseOfAllReaders) {
  const nn::ReferenceEverywhere reference;
  Layers layers;
  layers.push_back(layer_of(3, false, false));
  layers.push_back(layer_of(5, true, false));
  layers.push_back(layer_of(4, true, false, true));
  layers.push_back(layer_of(64, false, false, true, Linear::Stored::kInOut));
  layers.push_back(layer_of(6, true, true));
  const at::Tensor x = random_tensor({7, 64}, 9);
  const Outcome expected = outcome(layers, x, false);
  for (int pass = 0; pass < 2; ++pass) {
    const Outcome found = outcome(layers, x, true);
    EXPECT_TRUE(at::allclose(found.x_grad, expected.x_grad, 1e-5, 1e-4));
    EXPECT_TRUE(at::allclose(found.weight_grad, expected.weight_grad, 1e-5, 1e-5));
  }
}

TEST(SharedGradient, IsOnlySharedOnADeviceAndForABackwardPass) {
  const nn::Rows rows{random_tensor({2, 64}, 1).requires_grad_(true)};
  EXPECT_EQ(nn::share_gradient(rows).gradient != nullptr, nn::forces_reference());  // on the CPU
  const nn::ReferenceEverywhere reference;
  EXPECT_NE(nn::share_gradient(rows).gradient, nullptr);
  EXPECT_EQ(nn::share_gradient(rows).with(rows.x).gradient, nullptr);  // other rows have another gradient
  EXPECT_EQ(nn::share_gradient({rows.x.detach()}).gradient, nullptr);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(nn::share_gradient(rows).gradient, nullptr);
}

}  // namespace
}  // namespace trainer::testing
