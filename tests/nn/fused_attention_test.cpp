// Attention through libtorch's fused operators, on the simulated device (tests/simulated/attention.cpp) or a GPU,
// against the CPU kernel.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/nn/device/attention.h"
#include "models/nn/device/attention_choice.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/prefix.h"
#include "models/nn/self_attention.h"
#include "tests/nn/reference.h"
#include "tests/support/on_device.h"

namespace trainer::testing {
namespace {

using enum nn::AttentionKind;

class FusedAttention : public OnDevice {};
class LayoutTensors : public OnDevice {};

struct Call {
  std::string name;
  nn::LayoutPtr queries, keys;
  int64_t width = 16;
  bool with_bias = false;
  nn::AttentionOptions options;
  nn::AttentionKind in_bf16 = kFlash, in_fp32 = kEfficient;

  int64_t kv_heads() const { return options.kv_heads > 0 ? options.kv_heads : options.heads; }
  std::vector<at::Tensor> inputs(at::ScalarType dtype) const {
    const int64_t rows = keys->tokens(), longest = std::max(queries->longest(), keys->longest());
    std::vector<at::Tensor> all{random_tensor({queries->tokens(), options.heads * width}, 1, dtype),
                                random_tensor({rows, kv_heads() * width}, 2, dtype),
                                random_tensor({rows, kv_heads() * width}, 3, dtype)};
    if (with_bias) all.push_back(random_tensor({2 * longest + 3, options.heads}, 4));
    return all;
  }
};

/// The result, then the gradients of all inputs.
std::vector<at::Tensor> run(const Call& c, const std::vector<at::Tensor>& given, at::Device device) {
  std::vector<at::Tensor> in;
  for (const at::Tensor& x : given) in.push_back(x.to(device).detach().set_requires_grad(true));
  const at::Tensor out =
      nn::packed_attention(in[0], in[1], in[2], in.size() > 3 ? in[3] : at::Tensor(), c.queries, c.keys, c.options);
  const at::Tensor grad = random_tensor(out.sizes(), 9, out.scalar_type()).to(device);
  std::vector<at::Tensor> found = torch::autograd::grad({out}, in, {grad});
  found.insert(found.begin(), out.detach());
  for (at::Tensor& x : found) x = x.cpu();
  return found;
}

/// The simulated device computes in fp64. A GPU rounds sums of its own, also where the exact value is 0.
void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected, double tolerance,
                 const std::string& what) {
  const double times = asked() ? 1 : 2, zero = asked() ? 1e-9 : 1e-4;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type()) << what;
    const at::Tensor want = expected[i].to(at::kDouble), apart = found[i].to(at::kDouble) - want;
    EXPECT_LE(apart.norm().item<double>(), times * tolerance * want.norm().item<double>() + zero)
        << what << (i == 0 ? ": the result" : ": gradient " + std::to_string(i));
  }
}

nn::AttentionChoice chosen(const Call& c, at::ScalarType dtype) {
  const auto in = c.inputs(dtype);
  const auto there = [](const at::Tensor& x) { return x.to(device()); };
  return nn::choose_attention(there(in[0]), there(in[1]), in.size() > 3 ? there(in[3]) : at::Tensor(), *c.queries,
                              *c.keys, c.options);
}

std::vector<Call> calls() {
  const nn::LayoutPtr rows = layout_of({3, 1, 40}), others = layout_of({5, 9, 2}), ones = layout_of({1, 1, 1}),
                      some = layout_of({0, 4, 0, 2, 0}), longer = layout_of({7, 9, 41}), blocks = layout_of({128, 128});
  return {
      {"self", rows, rows, 16, false, {3, false, 0.25}},
      {"causal", rows, rows, 16, false, {3, true, 0.25}},
      {"one sample", layout_of({70}), layout_of({70}), 16, false, {2, true, 0.25}},
      {"samples of one token", ones, ones, 16, false, {4, true, 0.25, {}, 2}},
      {"cross", rows, others, 8, false, {2, false, 0.3}},
      {"keys decoded before", rows, longer, 8, false, {2, true, 0.3}},
      {"grouped heads", rows, rows, 24, false, {6, true, 0.2, {}, 2}},
      {"one head of keys", rows, rows, 32, false, {4, true, 0.2, {}, 1}},
      {"heads of 256 elements", rows, rows, 256, false, {1, true, 0.06}},
      {"empty samples", some, some, 16, false, {2, true, 0.25}},
      {"one length", blocks, blocks, 16, false, {3, true, 0.25}, kCudnn, kEfficient},
      {"one length, grouped heads", blocks, blocks, 64, false, {4, true, 0.125, {}, 2}, kCudnn, kEfficient},
      {"one length, one head of keys", blocks, blocks, 128, false, {4, true, 0.09, {}, 1}, kCudnn, kEfficient},
      {"one length, not causal", blocks, layout_of({128, 128}), 24, false, {2, false, 0.2}, kCudnn, kEfficient},
      {"one length, wide heads", blocks, blocks, 136, false, {1, true, 0.08}, kFlash, kEfficient},
      {"one length, cross", blocks, layout_of({3, 256}), 16, false, {2, false, 0.2}, kFlash, kEfficient},
      {"window", rows, rows, 16, false, {2, true, 0.25, {}, 0, 3}, kFlash, kPadded},
      {"window and earlier keys", rows, longer, 16, false, {4, true, 0.25, {}, 2, 4}, kFlash, kPadded},
      {"window on both sides", rows, rows, 16, false, {2, false, 0.25, {}, 0, 5}, kFlash, kPadded},
      {"window of the token itself", rows, rows, 16, false, {2, true, 0.25, {}, 0, 1}, kFlash, kPadded},
      {"bias", rows, rows, 16, true, {3, false, 1.0}, kPadded, kPadded},
      {"causal with a bias", rows, rows, 16, true, {3, true, 1.0}, kPadded, kPadded},
      {"cross with a bias", rows, others, 8, true, {4, false, 1.0, {}, 2}, kPadded, kPadded},
      {"one length with a bias", layout_of({6, 6}), layout_of({6, 6}), 8, true, {2, false, 1.0}, kPadded, kPadded},
      {"empty samples with a bias", some, some, 16, true, {2, true, 1.0}, kPadded, kPadded},
      {"heads of 512 elements", rows, rows, 512, false, {1, true, 0.04}, kEfficient, kEfficient},
      {"heads of 20 elements", rows, rows, 20, false, {2, true, 0.2}, kReference, kEfficient},
      {"soft cap", rows, rows, 16, false, {2, true, 0.9, {}, 0, 0, 1.5}, kReference, kReference},
  };
}

TEST_F(FusedAttention, MatchesTheCpuKernel) {
  for (const Call& c : calls())
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto inputs = c.inputs(dtype);
      EXPECT_EQ(chosen(c, dtype).kind, dtype == at::kFloat ? c.in_fp32 : c.in_bf16)
          << c.name << ": " << chosen(c, dtype).why;
      // In half precision, the bias is rounded too, and so is the result before backward uses it.
      expect_near(run(c, inputs, device()), run(c, inputs, at::kCPU), dtype == at::kFloat ? 4e-6 : 1e-2, c.name);
    }
}

TEST_F(FusedAttention, NamesWhatFlashAttentionLacks) {
  const auto why = [](const std::string& name, at::ScalarType dtype) {
    for (const Call& c : calls())
      if (c.name == name) return chosen(c, dtype).why;
    return std::string("no such call");
  };
  EXPECT_EQ(why("causal", at::kBFloat16), "");
  EXPECT_EQ(why("causal", at::kFloat), "activations in fp32");
  EXPECT_EQ(why("bias", at::kBFloat16), "a bias of the scores");
  EXPECT_EQ(why("heads of 512 elements", at::kHalf), "heads of 512 elements");
  EXPECT_EQ(why("heads of 20 elements", at::kHalf), "heads of 20 elements");
  EXPECT_EQ(why("soft cap", at::kBFloat16), "a soft cap of the scores");
}

TEST_F(FusedAttention, CountsItsKinds) {
  const nn::AttentionCount count;
  const auto all = calls();
  static_cast<void>(chosen(all[1], at::kBFloat16));
  EXPECT_EQ(count.text(), "flash attention");
  static_cast<void>(chosen(all.back(), at::kBFloat16));
  Call dropped = all[1];
  dropped.options.dropout = nn::dropout_rule(nn::philox_key(5, "attention"), 0.3);
  static_cast<void>(chosen(dropped, at::kFloat));
  EXPECT_EQ(
      count.text(),
      "reference attention (a soft cap of the scores) in 1 of 3 calls, flash attention in 1 of 3 calls, "
      "memory-efficient attention with padding (activations in fp32) in 1 of 3 calls; its operators draw the masks "
      "of attention's dropout");
}

// Scores of 4 samples with 4 heads would have 16 MiB.
TEST_F(FusedAttention, HoldsNoScores) {
  const nn::LayoutPtr rows = layout_of({512, 500, 400, 512});
  const Call c{"long", rows, rows, 8, false, {4, true, 0.3}};
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    const auto inputs = c.inputs(dtype);
    forget_peak();
    const int64_t before = peak_bytes();
    run(c, inputs, device());
    EXPECT_LT(peak_bytes() - before, 4 << 20) << dtype;
  }
}

TEST_F(FusedAttention, BlocksOfPaddedSamplesChangeNothing) {
  const nn::LayoutPtr rows = layout_of({9, 4, 0, 17, 2});
  const Call c{"blocks", rows, rows, 8, true, {4, true, 1.0, {}, 2}};
  const auto inputs = c.inputs(at::kFloat);
  const auto found = [&](int64_t most) {
    std::vector<at::Tensor> in;
    for (const at::Tensor& x : inputs) in.push_back(x.to(device()).detach().set_requires_grad(true));
    const at::Tensor out =
        nn::device::padded_attention(in[0], in[1], in[2], in[3], {c.queries, c.keys, c.options, c.width, most});
    auto all = torch::autograd::grad({out.sin().sum()}, in);
    all.insert(all.begin(), out.detach());
    for (at::Tensor& x : all) x = x.cpu();
    return all;
  };
  const auto whole = found(1 << 20);
  for (const int64_t most : {3000, 900, 300, 1}) expect_near(found(most), whole, 1e-6, std::to_string(most));
}

class AttentionMasks : public OnDevice, public ::testing::WithParamInterface<at::ScalarType> {
 protected:
  Call call(const std::vector<int64_t>& samples = {4, 11, 2}) const {
    const nn::LayoutPtr rows = layout_of({30, 1, 40}, samples);
    Call c{"dropout", rows, rows, 16, false, {4, false, 0.25, nn::dropout_rule(nn::philox_key(5, "attention"), 0.3)}};
    return c;
  }
};

TEST_P(AttentionMasks, AreThoseOfTheSamples) {
  const Call c = call();
  const auto inputs = c.inputs(GetParam());
  const auto first = run(c, inputs, device());
  run(call({5, 6, 7}), inputs, device());
  const auto again = run(c, inputs, device());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], again[i])) << i;
  EXPECT_FALSE(at::equal(first[0], run(call({4, 11, 3}), inputs, device())[0]));
  Call other = c;
  other.options.dropout.first = 4;  // another rank's heads
  EXPECT_FALSE(at::equal(first[0], run(other, inputs, device())[0]));
}

TEST_P(AttentionMasks, KeepTheExpectation) {
  Call c = call();
  auto inputs = c.inputs(GetParam());
  inputs[2] = at::ones(inputs[2].sizes(), inputs[2].options());
  const at::Tensor out = run(c, inputs, device())[0].to(at::kDouble);
  EXPECT_NEAR(out.mean().item<double>(), 1, 0.05);
  EXPECT_GT(out.std().item<double>(), 0.05);
}

// The result is linear in v, whose gradient must therefore come from the same masks; q's by finite differences.
TEST_P(AttentionMasks, AreTheSameInBackward) {
  const Call c = call();
  const auto inputs = c.inputs(GetParam());
  const auto found = run(c, inputs, device());
  const at::Tensor grad = random_tensor(found[0].sizes(), 9, found[0].scalar_type()).to(at::kDouble);
  const double tolerance = GetParam() == at::kFloat ? 1e-5 : 1e-2;
  const auto product = [](const at::Tensor& a, const at::Tensor& b) {
    return (a.to(at::kDouble) * b.to(at::kDouble)).sum().item<double>();
  };
  const double size = grad.norm().item<double>() * found[0].to(at::kDouble).norm().item<double>();
  EXPECT_NEAR(product(found[0], grad), product(inputs[2], found[3]), tolerance * size);
  if (GetParam() != at::kFloat) return;  // a difference would be mostly rounding
  const at::Tensor step = random_tensor(inputs[0].sizes(), 12) * 1e-2;
  const auto at_q = [&](const at::Tensor& q) { return product(run(c, {q, inputs[1], inputs[2]}, device())[0], grad); };
  const double along = (at_q(inputs[0] + step) - at_q(inputs[0] - step)) / 2;
  EXPECT_NEAR(along, product(step, found[1]), 1e-3 * std::abs(along) + 1e-4);
}

TEST_P(AttentionMasks, AreOursIfAsked) {
  const Call c = call();
  const auto inputs = c.inputs(GetParam());
  EXPECT_NE(chosen(c, GetParam()).kind, kReference);
  const nn::OwnAttentionMasks own;
  EXPECT_EQ(chosen(c, GetParam()).why, "deterministic dropout masks");
  expect_near(run(c, inputs, device()), run(c, inputs, at::kCPU), GetParam() == at::kFloat ? 4e-6 : 1e-2, "own masks");
}

INSTANTIATE_TEST_SUITE_P(InDtype, AttentionMasks, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& tested) { return std::string(c10::toString(tested.param)); });

// Prompts of different lengths after a prefix, then tokens one by one. The cache has gaps between the samples.
TEST_F(FusedAttention, DecodesAsOnTheCpu) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int64_t window : {0, 3}) {
      const nn::AttentionOptions options{4, true, 0.3, {}, 2, window};
      const auto decode = [&](at::Device device) {
        auto prefix = std::make_shared<nn::Prefix>();
        prefix->tokens = 2;
        prefix->keys = {random_tensor({2, 16}, 7, dtype).to(device)};
        prefix->values = {random_tensor({2, 16}, 8, dtype).to(device)};
        nn::DecodeCache cache{.slots = 4, .capacity = 11, .slot = {0, 2, 3}, .lengths = {0, 0, 0}};
        nn::Pass pass;
        pass.cache = &cache;
        pass.prefix = prefix;
        std::vector<at::Tensor> all;
        uint64_t seed = 20;
        for (const std::vector<int64_t>& lengths :
             std::vector<std::vector<int64_t>>{{4, 0, 7}, {1, 1, 1}, {1, 3, 1}, {1, 0, 1}}) {
          const nn::LayoutPtr rows = layout_of(lengths);
          const auto some = [&](int64_t width) {
            return random_tensor({rows->tokens(), width}, ++seed, dtype).to(device);
          };
          const at::Tensor q = some(32), k = some(16), v = some(16);
          all.push_back(nn::self_attention(q, k, v, rows, options, pass, 0).cpu());
          for (size_t s = 0; s < lengths.size(); ++s) cache.lengths[s] += lengths[s];
        }
        return all;
      };
      expect_near(decode(device()), decode(at::kCPU), dtype == at::kFloat ? 4e-6 : 1e-2, "decoding");
    }
}

TEST_F(LayoutTensors, AreSentOnceWithoutAWait) {
  const nn::LayoutPtr rows = layout_of({3, 0, 2}, {7, 9, 4});
  const at::Device there = device();
  const std::optional<Asked> before = asked();
  const nn::device::LayoutTensors& found = nn::device::tensors_of(*rows, there);
  EXPECT_EQ(&nn::device::tensors_of(*rows, there), &found);
  if (before) {
    EXPECT_EQ(asked()->copies - before->copies, 1);
    EXPECT_EQ(asked()->synchronizations, before->synchronizations);
  }
  const auto values = [](const at::Tensor& x) {
    const at::Tensor here = x.cpu().to(at::kLong).contiguous();
    return std::vector<int64_t>(here.data_ptr<int64_t>(), here.data_ptr<int64_t>() + here.numel());
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(values(found.sample_index), Numbers({7, 7, 7, 4, 4}));
  EXPECT_EQ(values(found.token), Numbers({0, 1, 2, 0, 1}));
  EXPECT_EQ(values(found.span), Numbers({0, 0, 0, 2, 2}));
  EXPECT_EQ(values(found.place), Numbers({0, 1, 2, 0, 1}));
  EXPECT_EQ(values(found.begin), Numbers({0, 3, 3}));
  EXPECT_EQ(values(found.length), Numbers({3, 0, 2}));
  EXPECT_EQ(values(found.starts), Numbers({0, 3, 3, 5}));
  EXPECT_EQ(values(found.lengths), Numbers({3, 0, 2}));
  EXPECT_EQ(found.starts.scalar_type(), at::kInt);
}

TEST_F(LayoutTensors, ACopyOfALayoutHasNone) {
  nn::Layout rows = *layout_of({3});
  static_cast<void>(nn::device::tensors_of(rows, device()));
  nn::Layout longer = rows;
  longer.append(2, 5);
  EXPECT_EQ(nn::device::tensors_of(longer, device()).sample_index.size(0), 5);
}

}  // namespace
}  // namespace trainer::testing
