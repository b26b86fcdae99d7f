// Gradients that a tied vocabulary's uses, and large linear layers, add to their weight's: Note [Gradients in place].
#include "models/nn/weight_gradient.h"

#include <functional>
#include <limits>
#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "models/nn/linear_cross_entropy.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

constexpr int64_t kTokens = 40, kVocabulary = 53, kWidth = 19;

struct Counter : torch::autograd::PostAccumulateGradHook {
  explicit Counter(int& of) : calls(of) {}
  void operator()(const torch::autograd::Variable&) override { ++calls; }
  int& calls;
};

/// The loss of a model that looks its tokens up twice in `table`, which is also its head's weight.
at::Tensor tied_loss(const at::Tensor& table) {
  nn::Linear head(kWidth, kVocabulary, false, {});
  head.weight()->value = table;
  nn::Embedding embedding(head.weight());
  const at::Tensor ids = at::arange(kTokens) % 7, labels = at::arange(kTokens) % 11;  // with repetitions
  const nn::Pass pass;
  const at::Tensor x = embedding({ids}, pass).x + embedding({ids + 3}, pass).x * 2;
  return nn::linear_cross_entropy_sum(head, {x}, labels, pass, {});
}

double most_difference(const at::Tensor& a, const at::Tensor& b) {
  return at::max(at::abs(a - b)).item<double>();
}

TEST(WeightGradient, OfATiedTableIsAddedByEachOfItsUses) {
  const at::Tensor values = random_tensor({kVocabulary, kWidth}, 1);
  const at::Tensor expected_of = values.clone().set_requires_grad(true);  // without a gradient beforehand
  torch::autograd::backward({tied_loss(expected_of)}, {});
  const at::Tensor expected = expected_of.grad();
  EXPECT_EQ(expected.layout(), at::kStrided);

  const at::Tensor table = values.clone().set_requires_grad(true), gradient = at::ones_like(values);
  table.mutable_grad() = gradient;
  int calls = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(table, std::make_unique<Counter>(calls));
  EXPECT_TRUE(nn::takes_gradient_in_place(table));
  for (int batch = 1; batch <= 2; ++batch) {
    torch::autograd::backward({tied_loss(table)}, {});
    EXPECT_EQ(calls, batch) << "after all uses";
    EXPECT_TRUE(table.grad().is_same(gradient));
    EXPECT_LT(most_difference(gradient, 1 + batch * expected), 1e-4);
  }
}

TEST(WeightGradient, AFrozenRowGetsNoneFromLookups) {
  const at::Tensor values = random_tensor({kVocabulary, kWidth}, 1), ids = at::arange(kTokens) % 7;
  for (const bool in_place : {false, true}) {
    nn::Embedding embedding(kVocabulary, kWidth, {});
    embedding.freeze_row(3);
    const at::Tensor table = values.clone().set_requires_grad(true);
    embedding.weight()->value = table;
    if (in_place) table.mutable_grad() = at::zeros_like(values);
    torch::autograd::backward({embedding({ids}, {}).x.sum()}, {});
    for (int64_t row = 0; row < 8; ++row)
      EXPECT_EQ(table.grad()[row].abs().sum().item<double>() > 0, row != 3 && row < 7)
          << row << " in place " << in_place;
  }
}

/// A layer of either storage whose weight is large enough that its gradient is written.
struct Layer {
  explicit Layer(nn::Linear::Stored stored) : linear(kIn, kOut, true, {}, stored) {
    const bool out_in = stored == nn::Linear::Stored::kOutIn;
    linear.weight()->value =
        random_tensor({out_in ? kOut : kIn, out_in ? kIn : kOut}, 1).set_requires_grad(true);
    linear.bias()->value = random_tensor({kOut}, 2).set_requires_grad(true);
  }
  at::Tensor loss(const at::Tensor& x, at::ScalarType compute = at::kFloat) {
    nn::Pass pass;
    pass.compute = compute;
    return (linear({x}, pass).x.to(at::kFloat) * at::arange(kOut)).sum();
  }
  at::Tensor& weight() { return linear.weight()->value; }

  static constexpr int64_t kIn = 256, kOut = 192;
  nn::Linear linear;
};

TEST(WeightGradient, OfALinearLayerIsThatOfTheProducts) {
  const at::Tensor x = random_tensor({kTokens, Layer::kIn}, 3).set_requires_grad(true);
  for (const auto stored : {nn::Linear::Stored::kOutIn, nn::Linear::Stored::kInOut})
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      Layer layer(stored);
      ASSERT_TRUE(nn::writes_gradient(layer.weight()));
      const auto expected = torch::autograd::grad({layer.loss(x, compute)}, {layer.weight(), layer.linear.bias()->value, x});
      EXPECT_FALSE(layer.weight().grad().defined());
      const at::Tensor as_out_in = stored == nn::Linear::Stored::kOutIn ? expected[0] : expected[0].t();
      const at::Tensor slopes = at::arange(Layer::kOut).to(at::kFloat);
      const at::Tensor products = at::outer(slopes, x.detach().sum(0));
      EXPECT_LT(most_difference(as_out_in, products), compute == at::kFloat ? 1e-2 : 20) << products.abs().max();

      const at::Tensor gradient = at::full_like(layer.weight().detach(), 7);
      layer.weight().mutable_grad() = gradient;
      int calls = 0;
      torch::autograd::impl::set_post_acc_grad_hooks(layer.weight(), std::make_unique<Counter>(calls));
      layer.linear.weight()->stale_grad = true;
      torch::autograd::backward({layer.loss(x, compute)}, {});
      EXPECT_EQ(calls, 1);
      EXPECT_FALSE(layer.linear.weight()->stale_grad);
      EXPECT_TRUE(layer.weight().grad().is_same(gradient));
      EXPECT_TRUE(at::equal(gradient, expected[0])) << "replaces what was there";
      torch::autograd::backward({layer.loss(x, compute)}, {});
      EXPECT_EQ(calls, 2);
      EXPECT_TRUE(at::equal(gradient, expected[0] + expected[0])) << "adds to it";
    }
}

TEST(WeightGradient, OfNoSamplesIsZeroWhateverWasThere) {
  Layer layer(nn::Linear::Stored::kOutIn);
  layer.weight().mutable_grad() = at::full_like(layer.weight().detach(), std::numeric_limits<float>::quiet_NaN());
  layer.linear.weight()->stale_grad = true;
  torch::autograd::backward({layer.loss(at::empty({0, Layer::kIn}))}, {});
  EXPECT_EQ(layer.weight().grad().abs().max().item<double>(), 0);
}

/// Uses that libtorch differentiates itself, before and after a layer's backward.
TEST(WeightGradient, ThatIsStaleIsZeroForOtherUsesToo) {
  const at::Tensor x = random_tensor({kTokens, Layer::kIn}, 3);
  Layer layer(nn::Linear::Stored::kOutIn);
  const auto others = [&] { return (layer.weight() * layer.weight()).sum(); };
  const std::vector<std::function<at::Tensor()>> losses{others, [&] { return layer.loss(x) + others(); },
                                                        [&] { return others() + layer.loss(x); }};
  nn::allow_stale_gradient(layer.linear.weight());
  for (const auto& loss : losses) {
    layer.weight().mutable_grad() = at::Tensor();
    const at::Tensor expected = torch::autograd::grad({loss()}, {layer.weight()})[0];
    layer.weight().mutable_grad() = at::full_like(layer.weight().detach(), std::numeric_limits<float>::quiet_NaN());
    layer.linear.weight()->stale_grad = true;
    torch::autograd::backward({loss()}, {});
    EXPECT_LT(most_difference(layer.weight().grad(), expected), 1e-3);
  }
}

TEST(WeightGradient, OfATiedTableReplacesAStaleOne) {
  nn::Linear head(kWidth, kVocabulary, false, {});
  head.weight()->value = random_tensor({kVocabulary, kWidth}, 1).set_requires_grad(true);
  nn::Embedding embedding(head.weight());
  const at::Tensor ids = at::arange(kTokens) % 7, labels = at::arange(kTokens) % 11;
  const auto loss = [&] {
    return nn::linear_cross_entropy_sum(head, {embedding({ids}, {}).x}, labels, {}, {});
  };
  const at::Tensor expected = torch::autograd::grad({loss()}, {head.weight()->value})[0];
  nn::allow_stale_gradient(head.weight());
  head.weight()->value.mutable_grad() =
      at::full_like(expected, std::numeric_limits<float>::quiet_NaN());
  head.weight()->stale_grad = true;
  torch::autograd::backward({loss()}, {});
  EXPECT_LT(most_difference(head.weight()->value.grad(), expected), 1e-4);
}

/// autograd::grad() asks for the gradient itself, as the recomputation of a layer does.
TEST(WeightGradient, OfATableWithoutOneIsReturned) {
  const at::Tensor table = random_tensor({kVocabulary, kWidth}, 1).set_requires_grad(true);
  EXPECT_FALSE(nn::takes_gradient_in_place(table));
  const auto found = torch::autograd::grad({tied_loss(table)}, {table});
  EXPECT_GT(found[0].abs().sum().item<double>(), 0);
  EXPECT_FALSE(table.grad().defined());
}

}  // namespace
}  // namespace trainer::testing
