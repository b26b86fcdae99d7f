#include "models/nn/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

TEST(Linear, FrozenWeightInAnotherDtypeMatchesItsCast) {
  for (const bool with_bias : {false, true})
    for (const auto& [kept, compute] : {std::pair{at::kBFloat16, at::kFloat}, std::pair{at::kFloat, at::kBFloat16}}) {
      nn::Linear layer(5, 4, with_bias, {});
      const at::Tensor weight = random_tensor({4, 5}, 1).to(kept), bias = random_tensor({4}, 2).to(kept);
      layer.weight()->value = weight;
      if (with_bias) layer.bias()->value = bias;
      nn::Pass pass;
      pass.compute = compute;
      const at::Tensor x = random_tensor({3, 5}, 3).set_requires_grad(true),
                       y = random_tensor({3, 5}, 3).set_requires_grad(true), scale = random_tensor({3, 4}, 4);
      const at::Tensor out = layer({x}, pass).x;
      at::Tensor expected = at::linear(y.to(compute), weight.to(compute));
      if (with_bias) expected = expected + bias.to(compute);
      EXPECT_EQ(out.scalar_type(), compute);
      EXPECT_TRUE(at::equal(out, expected));
      torch::autograd::backward({(out * scale).sum()}, {});
      torch::autograd::backward({(expected * scale).sum()}, {});
      EXPECT_TRUE(at::equal(x.grad(), y.grad()));
    }
}

}  // namespace
}  // namespace trainer::testing
