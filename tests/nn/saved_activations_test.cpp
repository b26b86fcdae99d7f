// What autograd saves waits for backward in fewer bits: Note [Saved activations].
#include "models/nn/saved_activations.h"

#include <limits>
#include <memory>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/nn/eight_bit_rows.h"
#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

using nn::SavedAs;

constexpr SavedAs kNarrow[] = {SavedAs::kBFloat16, SavedAs::kInt8};

struct During {
  explicit During(SavedAs how) { nn::save_activations_as(how); }
  ~During() { nn::save_activations_as(SavedAs::kAsComputed); }
};

/// A layer's output, which follows from x and a weight: 3 x.
at::Tensor layer(const at::Tensor& x) {
  return x * at::full({}, 3, x.options()).requires_grad_(true);
}

/// `x` as backward gets it.
at::Tensor narrow(const at::Tensor& x, SavedAs how) {
  if (how == SavedAs::kBFloat16) return x.to(at::kBFloat16).to(x.scalar_type());
  return nn::from_eight_bits(nn::to_eight_bits(x), x.scalar_type());
}

TEST(EightBits, AreAtMostHalfAScaleOff) {
  for (const int64_t width : {16, 50, 128, 320, 384})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor x = random_tensor({37, width}, static_cast<uint64_t>(width), dtype);
      const nn::EightBitRows rows = nn::to_eight_bits(x);
      const int64_t block = width % 128 == 0 ? 128 : width;
      ASSERT_EQ(rows.scales.numel(), x.numel() / block);
      const at::Tensor blocks = x.to(at::kFloat).view({-1, block});
      EXPECT_TRUE(at::equal(rows.scales, blocks.abs().amax({1}, true) / 127));
      const at::Tensor found = nn::from_eight_bits(rows, at::kFloat).view({-1, block});
      EXPECT_LE(((found - blocks).abs() / rows.scales).max().item<float>(), 0.5001F) << width;
      EXPECT_GT((found - blocks).abs().max().item<float>(), 0) << width;
      EXPECT_EQ(nn::from_eight_bits(rows, dtype).scalar_type(), dtype);
    }
}

TEST(EightBits, OfARowDontDependOnOtherRows) {
  const at::Tensor x = random_tensor({9, 48}, 3), all = nn::from_eight_bits(nn::to_eight_bits(x), at::kFloat);
  for (int64_t i = 0; i < 9; ++i) {
    const at::Tensor row = x.narrow(0, i, 1);
    EXPECT_TRUE(at::equal(nn::from_eight_bits(nn::to_eight_bits(row), at::kFloat), all.narrow(0, i, 1)));
  }
}

TEST(EightBits, KeepZerosAndSignsAndHideNothingThatIsNotFinite) {
  const at::Tensor x = at::zeros({5, 128});
  x[1][7] = std::numeric_limits<float>::infinity();
  x[2][100] = std::numeric_limits<float>::quiet_NaN();
  x[3].fill_(1e-38F);
  x[4].fill_(-4);
  const at::Tensor found = nn::from_eight_bits(nn::to_eight_bits(x), at::kFloat);
  EXPECT_TRUE((found[0] == 0).all().item<bool>());
  EXPECT_TRUE(found[1].isnan().all().item<bool>());
  EXPECT_TRUE(found[2].isnan().all().item<bool>());
  EXPECT_TRUE((found[3].abs() <= 1e-38F).all().item<bool>());
  EXPECT_TRUE(at::allclose(found[4], x[4]));
}

TEST(SavedActivations, ReachBackwardAsTheyWerePacked) {
  const at::Tensor x = random_tensor({6, 40}, 1).requires_grad_(true);
  for (const SavedAs how : kNarrow) {
    const During during(how);
    const at::Tensor hidden = layer(x);
    x.mutable_grad() = at::Tensor();
    const at::Tensor loss = hidden.square().sum();
    EXPECT_EQ(loss.item<float>(), (x.detach() * 3).square().sum().item<float>());
    torch::autograd::backward({loss}, {});
    EXPECT_TRUE(at::equal(x.grad(), narrow(hidden.detach(), how) * 2 * 3));
    EXPECT_FALSE(at::equal(x.grad(), hidden.detach() * 2 * 3));
  }
}

TEST(SavedActivations, WeightsTheirCastsAndTransposesStayAsTheyAre) {
  const at::Tensor weight = random_tensor({32, 40}, 2, at::kDouble).requires_grad_(true);
  const at::Tensor x = random_tensor({6, 40}, 1, at::kDouble).requires_grad_(true), grad = random_tensor({6, 32}, 3);
  for (const SavedAs how : kNarrow)
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      const During during(how);
      x.mutable_grad() = at::Tensor();
      const at::Tensor hidden = layer(x.to(dtype));
      torch::autograd::backward({at::mm(hidden, weight.to(dtype).t())}, {grad.to(dtype)});
      EXPECT_TRUE(at::equal(x.grad(), (at::mm(grad.to(dtype), weight.detach().to(dtype)) * 3).to(at::kDouble)));
    }
}

TEST(SavedActivations, OfBf16StayInBf16UnlessTheyWaitInEightBits) {
  const at::Tensor x = random_tensor({6, 128}, 1, at::kBFloat16).requires_grad_(true);
  for (const SavedAs how : kNarrow) {
    const During during(how);
    x.mutable_grad() = at::Tensor();
    const at::Tensor hidden = layer(x);
    torch::autograd::backward({hidden.square().sum()}, {});
    EXPECT_EQ(at::equal(x.grad(), hidden.detach() * 2 * 3), how == SavedAs::kBFloat16);
  }
}

TEST(SavedActivations, OutputsThatAFunctionSavesDontHoldIt) {
  for (const int64_t width : {8, 40})  // as it is, packed
    for (const SavedAs how : kNarrow) {
      const During during(how);
      const at::Tensor x = random_tensor({6, width}, 1).requires_grad_(true);
      std::weak_ptr<torch::autograd::Node> function;
      {
        const at::Tensor y = layer(x).exp();  // whose gradient is computed from y
        function = y.grad_fn();
        EXPECT_FALSE(function.expired());
      }
      EXPECT_TRUE(function.expired()) << width;
    }
}

TEST(SavedActivations, ChangedInPlaceBetweenTwoReadersArePackedTwice) {
  const During during(SavedAs::kBFloat16);
  const at::Tensor x = random_tensor({6, 40}, 1).requires_grad_(true);
  const at::Tensor a = random_tensor({40, 40}, 4).requires_grad_(true), hidden = layer(x);
  const at::Tensor first = at::mm(hidden, a), before = hidden.detach().clone();
  hidden.add_(1);
  const at::Tensor second = at::mm(hidden, a);
  torch::autograd::backward({first.sum() + second.sum()}, {});
  const at::Tensor ones = at::ones_like(first.detach());
  const at::Tensor expected = at::mm(narrow(before, SavedAs::kBFloat16).t(), ones) +
                              at::mm(narrow(hidden.detach(), SavedAs::kBFloat16).t(), ones);
  EXPECT_TRUE(at::allclose(a.grad(), expected, 1e-5, 1e-5));
}

}  // namespace
}  // namespace trainer::testing
