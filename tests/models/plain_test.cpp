// Note [Plain layers]: whole models of reference layers give the same results as with the CPU kernels.
// (tests/nn and the golden tests also run with reference layers: the ctests named plain.*.)
#include <gtest/gtest.h>

#include <ATen/ops/zeros.h>

#include "engine/dist/comm.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/outcome.h"
#include "engine/selftest/random_samples.h"
#include "models/nn/mask.h"
#include "models/nn/reference/draws.h"
#include "models/nn/reference/reference.h"

namespace trainer::testing {
namespace {

using selftest::Setting;

/// Every tiny model, full and with LoRA, with dropout.
std::vector<Setting> settings(bool bf16) {
  std::vector<Setting> all;
  for (const selftest::TinyModel& model : selftest::tiny_models())
    for (const bool lora : {false, true}) all.push_back({model, {"one rank"}, lora, 1, /*recompute=*/lora, bf16});
  return all;
}

selftest::Outcome trained(const Setting& setting) {
  return selftest::train(setting, selftest::random_samples(setting.model), *dist::solo_comm());
}

TEST(PlainLayers, TrainLikeTheKernels) {
  for (const bool bf16 : {false, true})
    for (const Setting& setting : settings(bf16)) {
      const selftest::Outcome kernels = trained(setting);
      const nn::ReferenceEverywhere plain;
      const selftest::Difference apart = difference(trained(setting), kernels, bf16, setting.model.gradient_tolerance);
      // In bf16, two implementations round differently, and a small gradient may consist mostly of rounding.
      const bool fits = bf16 ? apart.first_loss < 2e-2 && apart.gradients < 0.1 && apart.losses < 2e-2 : apart.fits();
      EXPECT_TRUE(fits) << setting.name() << ": first loss " << apart.first_loss << ", gradients " << apart.gradients
                        << " (" << apart.worst_gradient << "), losses " << apart.losses;
      // (A CPU without bf16 instructions may round both to the same bf16 values.)
      if (!bf16) {
        EXPECT_GT(std::max(apart.gradients, apart.losses), 0) << setting.name() << ": the reference layers did not run";
      }
    }
}

TEST(PlainLayers, DrawTheSameMasksAsTheKernels) {
  nn::Layout rows;
  rows.append(3, 9);
  rows.append(2, (int64_t{3} << 40) + 5);
  for (const int64_t first : {0, 37, 128, 300})
    for (const int64_t width : {1, 130, 1100}) {
      nn::DropoutRule rule = nn::dropout_rule(nn::philox_key(5, "layer"), 0.3);
      rule.first = first;
      const at::Tensor kept = nn::reference::kept_mask(rule, rows, width, at::kCPU);
      const at::Tensor bits = nn::draw_mask(rule.key, rule.threshold, rows, first, width, at::kCPU);
      for (int64_t row = 0; row < rows.tokens(); ++row)
        for (int64_t i = 0; i < width; ++i)
          ASSERT_EQ(kept.const_data_ptr<bool>()[row * kept.stride(0) + i],
                    (bits.const_data_ptr<uint8_t>()[row * bits.size(1) + i / 8] >> (i % 8) & 1) != 0)
              << "row " << row << ", element " << first + i;
    }
}

TEST(PlainLayers, AreChosenByTheDevice) {
  const at::Tensor here = at::zeros({2});
  EXPECT_FALSE(nn::runs_reference(here));
  EXPECT_FALSE(nn::runs_reference(here.to(at::kMeta)));
  const nn::ReferenceEverywhere plain;
  EXPECT_TRUE(nn::runs_reference(here));
  EXPECT_TRUE(nn::runs_reference(here.to(at::kMeta)));
}

}  // namespace
}  // namespace trainer::testing
