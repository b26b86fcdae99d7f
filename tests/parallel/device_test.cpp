// Training with tensors off the CPU: same results as on the CPU, and no code accesses a tensor's memory directly.
// (Note [Plain layers].) device_test runs on a test device, gpu_test on a GPU if there is one.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "engine/dist/device_comm.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/outcome.h"
#include "engine/selftest/random_samples.h"
#include "tests/support/on_device.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

using selftest::Setting;

std::unique_ptr<dist::Comm> on_device(dist::Comm& comm) {
  std::vector<int> all(static_cast<size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  return dist::device_comm(comm.group("device", all), nullptr, device());
}

/// Compares with one rank on the CPU, on rank 0.
void expect_same_numbers(const Setting& setting, dist::Comm& comm) {
  const auto samples = selftest::random_samples(setting.model);
  const selftest::Outcome found = selftest::train(setting, samples, *on_device(comm));
  if (comm.rank() != 0) return;
  const selftest::Outcome expected = selftest::train(setting.reference(), samples, *dist::solo_comm());
  // Another library's matrix products use another summation order.
  const selftest::Difference apart =
      difference(found, expected, setting.bf16, device().is_cuda() ? 1e-5 : setting.model.gradient_tolerance);
  // In bf16, two implementations round differently, and a small gradient may consist mostly of rounding.
  const bool fits =
      setting.bf16 ? apart.first_loss < 2e-2 && apart.gradients < 0.1 && apart.losses < 2e-2 : apart.fits();
  EXPECT_TRUE(fits) << setting.name() << ": first loss " << apart.first_loss << ", gradients " << apart.gradients
                    << " (" << apart.worst_gradient << "), losses " << apart.losses;
}

class Device : public OnDevice {};

TEST_F(Device, OneRankTrainsEveryModel) {
  for (const selftest::TinyModel& model : selftest::tiny_models())
    for (const bool lora : {false, true})
      for (const bool bf16 : {false, true})
        expect_same_numbers({model, {"one rank"}, lora, lora ? 4 : 1, /*recompute=*/lora, bf16}, *dist::solo_comm());
}

// Heads of 8 elements, which libtorch's fused attention supports, and no dropout, whose masks it would draw itself.
TEST_F(Device, FusedAttentionTrainsEveryModel) {
  for (const selftest::TinyModel& model : selftest::tiny_models(8))
    for (const bool lora : {false, true})
      for (const bool bf16 : {false, true}) {
        Setting setting{model, {"one rank"}, lora, lora ? 4 : 1, /*recompute=*/lora, bf16, /*dropout=*/false};
        setting.model.gradient_tolerance = std::max(model.gradient_tolerance, 4e-6);  // probabilities from sums in fp32
        expect_same_numbers(setting, *dist::solo_comm());
      }
}

// (Ranks that train on a device must be processes, as under `trainer selftest --device cuda`: autograd has one thread
// per device, in which the backward passes of two ranks of one process would wait for each other.)
TEST_F(Device, CollectivesMoveDeviceTensors) {
  run_ranks(2, [](dist::Comm& comm) {
    const auto there = on_device(comm);
    const auto numbers = at::arange(2, at::kFloat).add_(10 * comm.rank()).to(device());
    const at::Tensor full = at::arange(4, at::kFloat).to(device());
    there->all_gather(full, numbers)->wait();
    EXPECT_TRUE(at::equal(full.cpu(), at::arange(2, at::kFloat).repeat({2}) + at::arange(4, at::kFloat).ge(2) * 10));
    there->all_reduce(numbers, dist::Reduce::kSum);
    EXPECT_TRUE(at::equal(numbers.cpu(), at::arange(2, at::kFloat) * 2 + 10));
    there->broadcast(numbers, 1);
    EXPECT_TRUE(at::equal(numbers.cpu(), at::arange(2, at::kFloat) * 2 + 10));
    if (comm.rank() == 0)
      there->send(full, 1)->wait();
    else
      there->receive(full.zero_(), 0)->wait();
    EXPECT_EQ(full.cpu().sum().item<float>(), 22);
    EXPECT_FALSE(there->shared_memory(64).defined());
    EXPECT_EQ(there->sum(1), 2);
    EXPECT_EQ(there->gather_text("x").size(), 2);
  });
}

}  // namespace
}  // namespace trainer::testing
