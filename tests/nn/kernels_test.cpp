// The CUDA kernels, emulated or on a GPU, against the CPU's kernels and fp64 references: forward and backward, odd
// sizes, every element type. With the emulation, always compiled with the address and undefined-behavior sanitizers.
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "models/nn/cross_entropy.h"
#include "models/nn/device/device_kernels.h"
#include "models/nn/embedding_noise.h"
#include "models/nn/feed_forward.h"
#include "models/nn/mask.h"
#include "models/nn/rms_norm.h"
#include "models/nn/rope.h"
#include "tests/nn/reference.h"
#include "tests/support/on_device.h"

namespace trainer::testing {
namespace {

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

double tolerance_for(at::ScalarType dtype) {
  return dtype == at::kHalf ? 1e-3 : tolerance_of(dtype);
}

class Kernels : public OnDevice {
 protected:
  /// The kernels, to be called without the layers, and their stream.
  const nn::DeviceKernels& kernels = why_no_device().empty() ? kernels_of_device() : kNoKernels;
  void* stream() const { return kernels.current_stream(device().index()); }

 private:
  static constexpr nn::DeviceKernels kNoKernels{};
};

at::Tensor there(const at::Tensor& x) {
  return x.to(device());
}

/// expect_same() with `fused` on the device.
void expect_same_there(const Operation& fused, const Operation& exact, const std::vector<at::Tensor>& inputs,
                       double tolerance, const std::string& what) {
  const auto on_device = [&](const std::vector<at::Tensor>& in) {
    std::vector<at::Tensor> moved;
    for (const at::Tensor& x : in) moved.push_back(there(x));
    return fused(moved).cpu();
  };
  expect_same(on_device, exact, inputs, tolerance, what);
}

nn::DropoutRule rule_of(double p, int64_t first = 0) {
  nn::DropoutRule rule = p > 0 ? nn::dropout_rule(nn::philox_key(5, "layer"), p) : nn::DropoutRule{};
  rule.first = first;
  return rule;
}

nn::LayoutPtr rows_of_three() {
  return layout_of({3, 1, 4}, {9, 2, int64_t{3} << 33});
}

/// Contiguous, at an address that is a multiple of the element's size only.
at::Tensor misaligned(const at::Tensor& x) {
  return at::cat({at::zeros({1}, x.options()), x.flatten()}).narrow(0, 1, x.numel()).view(x.sizes());
}

TEST_F(Kernels, DrawTheMaskOfTheCpuBitForBit) {
  const nn::LayoutPtr rows = rows_of_three();
  for (const int64_t first : {0, 1, 7, 128, 129, 300})
    for (const int64_t width : {1, 37, 127, 128, 200, 1100, 4999}) {
      const nn::DropoutRule rule = rule_of(0.3, first);
      const at::Tensor bits = nn::draw_mask(rule.key, rule.threshold, *rows, first, width, at::kCPU);
      const at::Tensor kept = nn::dropout_mask(rule, *rows, there(at::empty({8, width}))).cpu();
      at::Tensor expected = at::empty({8, width});
      for (int64_t row = 0; row < 8; ++row)
        nn::expand_mask_row(bits[row].const_data_ptr<uint8_t>(), 1, width, expected[row].data_ptr<float>());
      EXPECT_TRUE(at::equal(kept.to(at::kFloat), expected)) << "from " << first << ", width " << width;
    }
}

TEST_F(Kernels, AddTheNoiseOfTheCpu) {
  const nn::LayoutPtr rows = rows_of_three();
  const nn::PhiloxKey key = nn::philox_key(5, "embeddings");
  for (const int64_t width : {1, 37, 127, 128, 200, 4999})
    for (const bool aligned : {true, false}) {
      const auto placed = [&](const at::Tensor& t) { return aligned ? t : misaligned(t); };
      const at::Tensor noise = nn::add_noise(at::zeros({8, width}), key, 5, rows);
      expect_same_there([&](const auto& in) { return nn::add_noise(placed(in[0]), key, 5, rows); },
                        [&](const auto& in) { return in[0] + noise; }, {random_tensor({8, width}, 1)}, kFloatTolerance,
                        "width " + std::to_string(width));
    }
  EXPECT_EQ(nn::add_noise(there(at::empty({0, 4})), key, 5, layout_of({})).numel(), 0);
}

TEST_F(Kernels, DropoutMatchesTheReference) {
  const nn::LayoutPtr rows = rows_of_three();
  const nn::DropoutRule rule = rule_of(0.3);
  for (const at::ScalarType dtype : kDtypes)
    for (const int64_t width : {1, 37, 128, 200, 2100}) {
      const at::Tensor mask = mask_of(rule, *rows, width), x = random_tensor({8, width}, 1, dtype),
                       residual = random_tensor({8, width}, 2);
      const std::string what = "width " + std::to_string(width);
      for (const bool aligned : {true, false}) {
        const auto placed = [&](const at::Tensor& t) { return aligned ? t : misaligned(t); };
        expect_same_there([&](const auto& in) { return nn::dropout(placed(in[0]), rule, rows); },
                          [&](const auto& in) { return in[0] * mask; }, {x}, tolerance_for(dtype), what);
        expect_same_there([&](const auto& in) { return nn::dropout_add(placed(in[0]), placed(in[1]), rule, rows); },
                          [&](const auto& in) { return in[0] + in[1] * mask; }, {residual, x}, tolerance_for(dtype),
                          what);
        expect_same_there([&](const auto& in) { return nn::dropout_add(placed(in[0]), placed(in[1]), rule, rows); },
                          [&](const auto& in) { return in[0] + in[1] * mask; }, {x, x}, tolerance_for(dtype), what);
      }
    }
}

TEST_F(Kernels, RotationMatchesTheReference) {
  for (const at::ScalarType dtype : kDtypes)
    for (const int64_t pairs : {1, 3, 4, 8, 20, 32, 64})
      for (const int64_t heads : {1, 3, 10})
        for (const bool aligned : {true, false}) {
          const at::Tensor angles = random_tensor({5, pairs}, 1), table = at::cat({angles.cos(), angles.sin()}, 1);
          const at::Tensor x = random_tensor({5, heads * 2 * pairs}, 2, dtype);
          const auto exact = [&](const std::vector<at::Tensor>& in) {
            const at::Tensor halves = in[0].view({5, heads, 2, pairs}), cosine = angles.cos().unsqueeze(1),
                             sine = angles.sin().unsqueeze(1), a = halves.select(2, 0), b = halves.select(2, 1);
            return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 2).view_as(in[0]);
          };
          expect_same_there(
              [&](const auto& in) { return nn::rotate(aligned ? in[0] : misaligned(in[0]), there(table)); }, exact, {x},
              tolerance_for(dtype), std::to_string(heads) + " heads, pairs " + std::to_string(pairs));
        }
}

TEST_F(Kernels, ActivationsMatchTheReference) {
  const nn::LayoutPtr rows = rows_of_three();
  using Exact = at::Tensor (*)(const at::Tensor&);
  const std::pair<nn::Activation, Exact> all[] = {
      {nn::Activation::kRelu, [](const at::Tensor& x) { return x.relu(); }},
      {nn::Activation::kGelu, [](const at::Tensor& x) { return at::gelu(x); }},
      {nn::Activation::kGeluNew, [](const at::Tensor& x) { return at::gelu(x, "tanh"); }},
      {nn::Activation::kSilu, [](const at::Tensor& x) { return at::silu(x); }},
      {nn::Activation::kQuickGelu, [](const at::Tensor& x) { return x * (1.702 * x).sigmoid(); }},
      {nn::Activation::kTanh, [](const at::Tensor& x) { return x.tanh(); }}};
  for (const auto& [activation, exact] : all)
    for (const at::ScalarType dtype : kDtypes)
      for (const int64_t width : {1, 13, 130, 520})
        for (const double p : {0.0, 0.3}) {
          const nn::DropoutRule rule = rule_of(p);
          const at::Tensor mask = p > 0 ? mask_of(rule, *rows, width) : at::ones({}, at::kDouble);
          const at::Tensor gate = 3 * random_tensor({8, width}, 1, dtype), up = random_tensor({8, width}, 2, dtype);
          const std::string what = "activation " + std::to_string(static_cast<int>(activation)) + ", width " +
                                   std::to_string(width) + ", dropout " + std::to_string(p);
          const auto plain = exact;
          const nn::Activation kind = activation;
          expect_same_there([&](const auto& in) { return nn::activate(in[0], kind, rule, rows); },
                            [&](const auto& in) { return plain(in[0]) * mask; }, {gate}, tolerance_for(dtype), what);
          expect_same_there(
              [&](const auto& in) { return nn::activate_gated(in[0], misaligned(in[1]), kind, rule, rows); },
              [&](const auto& in) { return plain(in[0]) * in[1] * mask; }, {gate, up}, tolerance_for(dtype),
              "gated " + what);
        }
}

TEST_F(Kernels, ActivationsSaturateAndPropagateNan) {
  const nn::LayoutPtr row = layout_of({1});
  const at::Tensor nan = at::full({1, 9}, std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 6; ++i) {
    const auto kind = static_cast<nn::Activation>(i);
    EXPECT_TRUE(nn::activate(there(nan), kind, {}, row).isnan().all().item<bool>()) << i;
    const at::Tensor ends = at::zeros({1, 2});
    ends[0][0] = -1e4, ends[0][1] = 1e4;
    const at::Tensor out = nn::activate(there(ends), kind, {}, row).cpu();
    EXPECT_EQ(out[0][0].item<float>(), kind == nn::Activation::kTanh ? -1.0F : 0.0F) << i;
    EXPECT_EQ(out[0][1].item<float>(), kind == nn::Activation::kTanh ? 1.0F : 1e4F) << i;
  }
}

// With the gradient of x as it goes on beside the norm, and without.
TEST_F(Kernels, RmsNormsMatchTheReference) {
  constexpr std::pair<at::ScalarType, at::ScalarType> kPairs[] = {
      {at::kFloat, at::kFloat},       {at::kFloat, at::kBFloat16}, {at::kFloat, at::kHalf}, {at::kBFloat16, at::kFloat},
      {at::kBFloat16, at::kBFloat16}, {at::kHalf, at::kFloat},     {at::kHalf, at::kHalf}};
  for (const auto& [dtype, out_dtype] : kPairs)
    for (const int64_t width : {1, 37, 64, 1024, 1032, 2100})
      for (const bool aligned : {true, false})
        for (const bool beside : {false, true}) {
          const at::Tensor x = random_tensor({width > 64 ? 9 : 70, width}, 1, dtype),
                           weight = random_tensor({width}, 2);
          const auto dtype_of_result = out_dtype;
          const auto found = [&](const std::vector<at::Tensor>& in) {
            const auto [norm, same] =
                nn::rms_norm_and_input(aligned ? in[0] : misaligned(in[0]), in[1], 1e-5, dtype_of_result);
            return beside ? norm + same.tanh() : norm;
          };
          const auto exact = [&](const std::vector<at::Tensor>& in) {
            const at::Tensor norm = in[0] * (in[0].square().mean(-1, true) + 1e-5).rsqrt() * in[1];
            return beside ? norm + in[0].tanh() : norm;
          };
          const double tolerance = std::max(tolerance_for(dtype), tolerance_for(out_dtype));
          expect_same_there(found, exact, {x, weight}, tolerance, "width " + std::to_string(width));
        }
}

TEST_F(Kernels, RmsNormsRoundBeforeTheWeightIfAsked) {
  const at::Tensor x = random_tensor({9, 2056}, 1), weight = random_tensor({2056}, 2);
  const at::Tensor found =
      nn::rms_norm(there(x), there(weight), 1e-5, at::kBFloat16, nn::RmsRounding::kBeforeWeight).cpu();
  const at::Tensor plain = x * (x.square().mean(-1, true) + 1e-5).rsqrt();
  const at::Tensor expected = (plain.to(at::kBFloat16).to(at::kFloat) * weight).to(at::kBFloat16);
  const at::Tensor other = found.ne(expected);  // where `plain` is between two values of bf16
  EXPECT_LT(other.sum().item<int64_t>(), found.numel() / 1000);
}

TEST_F(Kernels, SumsOfDifferentDtypesMatchTheReference) {
  const nn::LayoutPtr rows = rows_of_three();
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const int64_t width : {1, 37, 128, 2100})
      for (const bool aligned : {true, false})
        expect_same_there(
            [&](const auto& in) { return nn::dropout_add(in[0], aligned ? in[1] : misaligned(in[1]), {}, rows); },
            [&](const auto& in) { return in[0] + in[1]; },
            {random_tensor({8, width}, 1), random_tensor({8, width}, 2, dtype)}, tolerance_for(dtype),
            "width " + std::to_string(width));
}

at::Tensor labels_of(const std::vector<int64_t>& values) {
  at::Tensor labels = at::zeros({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), labels.data_ptr<int64_t>());
  return labels;
}

TEST_F(Kernels, CrossEntropyMatchesTheReference) {
  for (const at::ScalarType dtype : kDtypes)
    for (const int64_t width : {8, 31, 53, 256, 257, 5000})
      for (const double smoothing : {0.0, 0.1}) {
        const std::vector<int64_t> values{0, width - 1, -100, 7, -100, 7};
        const auto exact = [&](const std::vector<at::Tensor>& in) {
          at::Tensor sum = in[0].sum() * 0;
          for (int64_t row = 0; row < 6; ++row)
            if (values[row] >= 0)
              sum = sum + at::logsumexp(in[0][row], 0) - (1 - smoothing) * in[0][row][values[row]] -
                    smoothing * in[0][row].mean();
          return sum;
        };
        for (const bool aligned : {true, false})
          expect_same_there(
              [&](const auto& in) {
                return nn::cross_entropy_sum(aligned ? in[0] : misaligned(in[0]), labels_of(values), smoothing);
              },
              exact, {4 * random_tensor({6, width}, 1, dtype)}, tolerance_for(dtype), "width " + std::to_string(width));
      }
}

TEST_F(Kernels, CrossEntropyOfLargeLogitsIsExact) {
  at::Tensor logits = at::zeros({2, 3});
  logits[0][1] = 1e4, logits[1][1] = -std::numeric_limits<float>::infinity();
  const at::Tensor given = there(logits), labels = there(labels_of({2, 0})),
                   found = there(at::empty({2, 4}, at::kDouble));
  kernels.cross_entropy_sums(nn::ElementType::kFloat, given.const_data_ptr(), labels.const_data_ptr<int64_t>(), 0, 2, 3,
                             false, found.data_ptr<double>(), stream());
  const at::Tensor sums = found.cpu();
  EXPECT_EQ(sums[0][0].item<double>(), 1e4);
  EXPECT_EQ(sums[0][1].item<double>(), 1);
  EXPECT_EQ(sums[1][0].item<double>(), 0);
  EXPECT_EQ(sums[1][1].item<double>(), 2);  // e^-inf adds nothing
}

TEST_F(Kernels, CrossEntropyOfSlicesAddsUp) {
  // Two slices of the vocabulary, as tensor-parallel ranks have them; and the gradient in place.
  const at::Tensor logits = there(3 * random_tensor({4, 100}, 1)), labels = there(labels_of({3, 60, 99, -100})),
                   whole = there(at::empty({4, 4}, at::kDouble)), grad = there(at::ones({1}));
  at::Tensor slices[2];
  const auto sums_of = [&](const at::Tensor& x, int64_t begin, const at::Tensor& sums) {
    kernels.cross_entropy_sums(nn::ElementType::kFloat, x.const_data_ptr(), labels.const_data_ptr<int64_t>(), begin, 4,
                               x.size(1), true, sums.data_ptr<double>(), stream());
  };
  sums_of(logits, 0, whole);
  for (int64_t i = 0; i < 2; ++i) {
    slices[i] = at::empty_like(whole);
    sums_of(logits.narrow(1, 60 * i, i == 0 ? 60 : 40).contiguous(), 60 * i, slices[i]);
  }
  const auto log_sum = [](const at::Tensor& sums) { return sums.select(1, 0) + sums.select(1, 1).log(); };
  const at::Tensor together = at::logaddexp(log_sum(slices[0]), log_sum(slices[1]));
  EXPECT_TRUE(at::allclose(together, log_sum(whole), 1e-6, 1e-6));
  EXPECT_TRUE(at::equal(slices[0].select(1, 2) + slices[1].select(1, 2), whole.select(1, 2)));
  EXPECT_TRUE(at::allclose(slices[0].select(1, 3) + slices[1].select(1, 3), whole.select(1, 3), 1e-5, 1e-5));

  const at::Tensor log_sums = log_sum(whole).to(at::kFloat);
  const auto gradient_of = [&](const at::Tensor& x, int64_t begin, const at::Tensor& out) {
    kernels.cross_entropy_gradient(nn::ElementType::kFloat, x.const_data_ptr(), labels.const_data_ptr<int64_t>(),
                                   log_sums.const_data_ptr<float>(), grad.const_data_ptr<float>(), 0.9F, 0.001F, begin,
                                   4, x.size(1), out.data_ptr(), stream());
  };
  const at::Tensor expected = at::empty_like(logits), right = logits.narrow(1, 60, 40).contiguous();
  gradient_of(logits, 0, expected);
  gradient_of(right, 60, right);
  EXPECT_TRUE(at::equal(right, expected.narrow(1, 60, 40)));
}

// The codebook is bitsandbytes' (functional.py, get_4bit_type).
TEST_F(Kernels, FourBitValuesAreTheCodeTimesTheScale) {
  const nn::FourBitCode nf4{
      {-1.0F, -0.6961928F, -0.52507305F, -0.39491749F, -0.28444138F, -0.18477343F, -0.091050036F, 0.0F, 0.0795803F,
       0.1609302F, 0.2461123F, 0.33791524F, 0.44070983F, 0.562617F, 0.72295684F, 1.0F},
      {}};
  for (const at::ScalarType dtype : kDtypes)
    for (const bool doubled : {false, true})
      for (const int64_t blocks : {1, 2, 31, 200}) {
        const int64_t head = doubled ? 1 : 4, stride = head + 32;
        const at::Tensor bytes = at::randint(0, 256, {blocks, stride}, at::detail::createCPUGenerator(3)).to(at::kByte);
        at::Tensor scales = random_tensor({blocks}, 4).abs();
        const at::Tensor shared = random_tensor({blocks, 2}, 5), shared_there = there(shared),
                         out = there(at::empty({blocks * 64}, dtype));
        nn::FourBitScales given;
        if (doubled) {
          given.shared = shared_there.const_data_ptr<float>();
          const at::Tensor map = random_tensor({256}, 6);
          std::copy_n(map.const_data_ptr<float>(), 256, given.map);
          scales = map.index_select(0, bytes.select(1, 0).to(at::kInt)) * shared.select(1, 0) + shared.select(1, 1);
        } else {
          bytes.narrow(1, 0, 4).copy_(scales.view(at::kByte).view({blocks, 4}));
        }
        const auto* const from = bytes.const_data_ptr<uint8_t>();
        const at::Tensor bytes_there = there(bytes);
        kernels.decode_four_bits(bytes_there.const_data_ptr<uint8_t>(), blocks, nf4, given, *nn::element_type(dtype),
                                 out.data_ptr(), stream());
        at::Tensor expected = at::empty({blocks * 64});
        for (int64_t i = 0; i < blocks * 64; ++i) {
          const uint8_t byte = from[i / 64 * stride + head + i % 64 / 2];
          expected.data_ptr<float>()[i] =
              nf4.values[i % 2 == 0 ? byte >> 4 : byte & 15] * scales.const_data_ptr<float>()[i / 64];
        }
        EXPECT_TRUE(at::equal(out.cpu(), expected.to(dtype))) << blocks << " blocks, doubly quantized " << doubled;
      }
}

TEST_F(Kernels, FourBitBlocksAtOddAddressesAreRefused) {
  const at::Tensor bytes = at::zeros({37}, at::kByte), out = at::empty({64});
  EXPECT_THROW(kernels.decode_four_bits(bytes.const_data_ptr<uint8_t>() + 1, 1, {}, {}, nn::ElementType::kFloat,
                                        out.data_ptr(), stream()),
               std::runtime_error);
  EXPECT_THROW(kernels.decode_four_bits(bytes.const_data_ptr<uint8_t>(), 1, {}, {}, nn::ElementType::kFloat,
                                        out.data_ptr<float>() + 1, stream()),
               std::runtime_error);
}

TEST_F(Kernels, NoRowsAreNoLaunch) {
  const nn::LayoutPtr rows = layout_of({});
  const at::Tensor none = there(at::empty({0, 5}));
  EXPECT_EQ(nn::dropout(none, rule_of(0.3), rows).numel(), 0);
  EXPECT_EQ(nn::activate(none, nn::Activation::kSilu, {}, rows).numel(), 0);
  EXPECT_EQ(nn::rotate(there(at::empty({0, 8})), there(at::empty({0, 4}))).numel(), 0);
}

}  // namespace
}  // namespace trainer::testing
