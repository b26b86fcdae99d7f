// 4-bit weights on a device: decoded for each product, by the kernel (emulated) or by libtorch's operators.
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>

#include "engine/dist/device_comm.h"
#include "models/nn/device/device_kernels.h"
#include "models/nn/four_bit.h"
#include "models/nn/linear.h"
#include "tests/parallel/device_setting.h"
#include "tests/parallel/processes.h"
#include "tests/simulated/device.h"
#include "tests/simulated/kernels.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

constexpr int kUpdates = 3;

struct Training {
  double losses[kUpdates], gradient_norms[kUpdates];
  int64_t decoded;  // launches of the kernel in the last update
};

int64_t decode_launches() {
  const auto launches = simulated::launches_by_name();
  const auto found = launches.find("decode_four_bits");
  return found == launches.end() ? 0 : found->second;
}

Training train(const Setting& s, dist::Comm& comm) {
  const config::Plan plan = plan_of(s);
  const auto model = make_model(plan, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  nn::Pass pass;
  pass.training = true;
  Training found{};
  for (int update = 0; update < kUpdates; ++update) {
    const int64_t before = decode_launches();
    found.losses[update] =
        model->update(std::vector<models::Batch>(static_cast<size_t>(s.micro_batches), real_batch(s)), 1000, pass);
    found.decoded = decode_launches() - before;
    found.gradient_norms[update] = model->clip_grad_norm(1);
    optimizer->step(model->logical_tensors(), 1e-2);
    model->zero_grad();
  }
  return found;
}

enum class On { kCpu, kDevice, kDeviceWithKernels };

/// In a process of its own, because a backward pass starts a thread for the device.
Training trained(const Setting& s, On on) {
  return in_processes<Training>(1, /*share_memory=*/false,
                                [&](dist::Comm& host, const std::string&) {
                                  if (on == On::kCpu) return train(s, host);
                                  const auto comm = dist::device_comm(host.group("device", {0}), nullptr, device());
                                  if (on == On::kDeviceWithKernels)
                                    nn::use_device_kernels(simulated::kType, &simulated::kernels());
                                  return train(s, *comm);
                                })
      .front();
}

Setting setting_of(const Family& family, Packed packed) {
  Setting s{family, kNo, /*lora=*/true};
  s.lengths = {12, 40, 3};
  s.micro_batches = 2;
  s.packed = packed;
  return s;
}

// Three layers of seven weights. Forward decodes each once in a micro-batch, backward once more, except the first
// layer's q, k and v: their inputs need no gradient.
TEST(FourBitOnDevice, LossesAndGradientsAreThoseOfTheCpu) {
  for (const Packed packed : {Packed::kOnce, Packed::kTwice}) {
    const Setting s = setting_of(kLlama, packed);
    const Training expected = trained(s, On::kCpu);
    EXPECT_NE(expected.losses[0], expected.losses[kUpdates - 1]);
    for (const On on : {On::kDevice, On::kDeviceWithKernels}) {
      const Training found = trained(s, on);
      for (int i = 0; i < kUpdates; ++i) {
        EXPECT_NEAR(found.losses[i] / expected.losses[i], 1, 2e-6) << s.name() << ", update " << i;
        EXPECT_NEAR(found.gradient_norms[i] / expected.gradient_norms[i], 1, 1e-5) << s.name() << ", update " << i;
      }
      EXPECT_EQ(found.decoded, on == On::kDeviceWithKernels ? s.micro_batches * (21 + 18) : 0) << s.name();
    }
  }
}

TEST(FourBitOnDevice, RecomputedLayersAreDecodedOnceMore) {
  Setting s = setting_of(kLlama, Packed::kTwice);
  s.recompute = s.bf16 = true;
  EXPECT_EQ(trained(s, On::kDeviceWithKernels).decoded, s.micro_batches * (21 + 21 + 18));
}

/// Bytes of a linear layer, forward and backward.
struct LayerMemory {
  int64_t weight, held_between, peak_forward, peak_backward;
  bool same_values;
};

constexpr int64_t kRows = 64, kIn = 512, kOut = 1024;

LayerMemory memory_of_layer(bool doubled, bool with_kernels) {
  const c10::Device there = device();
  if (with_kernels) nn::use_device_kernels(simulated::kType, &simulated::kernels());
  const at::Tensor values = at::randn({kOut, kIn});
  const nn::PackedFormat& format = nn::four_bits(nn::FourBits::kNf4, doubled);
  nn::Storage storage(format);
  at::Tensor shared;
  if (doubled) shared = format.share(format.summary(values.view({-1, format.block})));
  if (doubled) storage.groups = std::make_shared<nn::BlockGroups>(nn::BlockGroups{shared, {}, {kOut, kIn}});
  const at::Tensor stored = storage.encode(values), expected = storage.decode(stored, at::kFloat);
  if (doubled) storage.groups = std::make_shared<nn::BlockGroups>(nn::BlockGroups{shared.to(there), {}, {kOut, kIn}});

  nn::Linear layer(kIn, kOut, /*bias=*/false, {});
  const int64_t empty = simulated::held_bytes(0);
  layer.weight()->storage = storage;
  layer.weight()->value = stored.to(there);
  LayerMemory found{};
  found.weight = simulated::held_bytes(0) - empty;
  found.same_values = at::equal(layer.matrix(at::kFloat).cpu(), expected);
  const at::Tensor x = at::randn({kRows, kIn}).to(there).requires_grad_(true),
                   grad = at::randn({kRows, kOut}).to(there);
  const auto peak_of = [&](const auto& work) {
    simulated::forget_peak(0);
    const int64_t before = simulated::peak_bytes(0);
    work();
    return simulated::peak_bytes(0) - before;
  };
  at::Tensor y;
  const int64_t before = simulated::held_bytes(0);
  found.peak_forward = peak_of([&] { y = layer(nn::Rows{x, nullptr}, {}).x; });
  found.held_between = simulated::held_bytes(0) - before;
  found.peak_backward = peak_of([&] { y.backward(grad); });
  return found;
}

// Between forward and backward, only the result is on the device besides the 4-bit weight; during each, also the
// decoded weight, and what groups share: 8 bytes for each block (or, without the kernel, all that its operators need).
TEST(FourBitOnDevice, OneDecodedWeightExistsDuringItsProduct) {
  constexpr int64_t kWeights = kIn * kOut, kDecoded = 4 * kWeights, kResult = 4 * kRows * kOut,
                    kGradient = 4 * kRows * kIn;
  for (const bool doubled : {false, true})
    for (const bool with_kernels : {false, true}) {
      const LayerMemory found =
          in_processes<LayerMemory>(1, /*share_memory=*/false, [&](dist::Comm&, const std::string&) {
            return memory_of_layer(doubled, with_kernels);
          }).front();
      EXPECT_TRUE(found.same_values);
      EXPECT_EQ(found.weight, kWeights / 64 * (32 + (doubled ? 1 : 4)));
      EXPECT_EQ(found.held_between, kResult);
      const int64_t shared = doubled ? kWeights / 64 * 8 : 0;
      if (with_kernels) {
        EXPECT_EQ(found.peak_forward, kDecoded + std::max(shared, kResult));
        EXPECT_EQ(found.peak_backward, kDecoded + std::max(shared, kGradient));
      } else {
        EXPECT_GT(found.peak_forward, kDecoded + kResult);
        EXPECT_LT(found.peak_forward, kDecoded + 7 * kWeights);
      }
    }
}

}  // namespace
}  // namespace trainer::testing
