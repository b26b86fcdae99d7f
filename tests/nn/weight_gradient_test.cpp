// A tied vocabulary's gradients, added to its weight's by the uses themselves: Note [Gradients in place].
#include "models/nn/weight_gradient.h"

#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones_like.h>
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
