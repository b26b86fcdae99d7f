#include "models/nn/storage.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/nn/linear.h"
#include "tests/nn/reference.h"
#include "tests/support/int8_blocks.h"

namespace trainer::testing {
namespace {

const nn::Storage& packed() {
  static const nn::Storage storage(int8_blocks());
  return storage;
}

TEST(Storage, OfADtypeIsTheTensorItself) {
  const nn::Storage storage(at::kBFloat16);
  const at::Tensor values = random_tensor({3, 5}, 1);
  const at::Tensor stored = storage.encode(values);
  EXPECT_TRUE(at::equal(stored, values.to(at::kBFloat16)));
  EXPECT_TRUE(storage.decode(stored, at::kBFloat16).is_same(stored));
  EXPECT_EQ(storage.bytes(15), 30);
  EXPECT_EQ(storage.grain(), 1);
  EXPECT_EQ(storage.shape({3, 5}), (std::vector<int64_t>{3, 5}));
}

TEST(Storage, PackedValuesComeBackWithinHalfAStep) {
  const at::Tensor values = random_tensor({3, 64}, 1);
  const at::Tensor stored = packed().encode(values), back = packed().decode(stored, at::kFloat);
  EXPECT_EQ(stored.scalar_type(), at::kByte);
  EXPECT_EQ(stored.sizes().vec(), (std::vector<int64_t>{3, 72}));
  EXPECT_EQ(packed().shape({3, 64}), stored.sizes().vec());
  EXPECT_EQ(packed().bytes(3 * 64), stored.numel());
  ASSERT_EQ(back.sizes(), values.sizes());
  const at::Tensor step = (values.view({-1, 32}).abs().amax(1, true) / 127).expand({-1, 32}).reshape({3, 64});
  EXPECT_TRUE(((back - values).abs() <= step * 0.5001).all().item<bool>());
  EXPECT_FALSE(at::equal(back, values));
  EXPECT_TRUE(at::equal(packed().decode(stored, at::kBFloat16), back.to(at::kBFloat16)));
}

TEST(Storage, EveryBlockStandsAlone) {
  const at::Tensor values = random_tensor({4, 64}, 1), whole = packed().encode(values);
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t block = 0; block < 2; ++block) {
      const at::Tensor alone = packed().encode(values[row].narrow(0, block * 32, 32).contiguous());
      EXPECT_TRUE(at::equal(alone, whole[row].narrow(0, block * 36, 36)));
    }
}

TEST(Storage, ParametersBeginWhereBlocksAreAligned) {
  nn::PackedFormat format = int8_blocks();
  EXPECT_EQ(nn::Storage(format).grain(), 32);  // 36 bytes are a multiple of 4
  format.alignment = 16;
  EXPECT_EQ(nn::Storage(format).grain(), 128);  // four blocks are 144 bytes
}

TEST(Storage, LinearLayersDecodePackedWeights) {
  for (const auto stored : {nn::Linear::Stored::kOutIn, nn::Linear::Stored::kInOut})
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16})
      for (const bool with_bias : {false, true}) {
        nn::Linear layer(64, 32, with_bias, {}, stored);
        const nn::ParameterPtr w = layer.weight();
        const at::Tensor original = random_tensor(w->shape, 1), bias = random_tensor({32}, 2);
        w->storage = packed();
        w->value = packed().encode(original);
        if (with_bias) layer.bias()->value = bias;
        const at::Tensor decoded = w->values(compute);
        const at::Tensor weight = stored == nn::Linear::Stored::kOutIn ? decoded : decoded.t();
        EXPECT_TRUE(at::equal(layer.matrix(compute), weight));
        nn::Pass pass;
        pass.compute = compute;
        const at::Tensor x = random_tensor({3, 64}, 3).set_requires_grad(true),
                         y = random_tensor({3, 64}, 3).set_requires_grad(true), scale = random_tensor({3, 32}, 4);
        const at::Tensor out = layer({x}, pass).x;
        at::Tensor expected = at::linear(y.to(compute), weight);
        if (with_bias) expected = expected + bias.to(compute);
        EXPECT_TRUE(at::equal(out, expected));
        torch::autograd::backward({(out * scale).sum()}, {});
        torch::autograd::backward({(expected * scale).sum()}, {});
        EXPECT_TRUE(at::equal(x.grad(), y.grad()));
      }
}

}  // namespace
}  // namespace trainer::testing
