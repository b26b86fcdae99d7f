// training.saved_activations: how far gradients are off, and that every strategy has the same ones.
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>

#include "engine/config/names.h"
#include "tests/parallel/spread_training.h"

namespace trainer::testing {
namespace {

using config::SavedActivations;

selftest::Outcome outcome_of(const Setting& setting, SavedActivations saved) {
  config::Plan plan = selftest::plan_of(setting);
  plan.config.training.saved_activations = saved;
  return testing::outcome_of(setting, plan);
}

/// Of all gradients together, relative.
double difference(const selftest::Outcome& found, const selftest::Outcome& expected) {
  double off = 0, all = 0;
  for (const auto& [name, gradient] : expected.gradients) {
    off += (found.gradients.at(name) - gradient).square().sum().item<double>();
    all += gradient.square().sum().item<double>();
  }
  return std::sqrt(off / all);
}

struct Bounds {
  SavedActivations saved;
  double least, most;
};
// Measured: 0.0006 to 0.0026, and 0.0017 to 0.0074.
constexpr Bounds kBounds[] = {{SavedActivations::kBfloat16, 1e-5, 0.004}, {SavedActivations::kInt8, 1e-4, 0.012}};

TEST(SavedActivations, GradientsAreOffByTheirRounding) {
  for (const TinyModel& model : selftest::tiny_models())
    for (const bool lora : {false, true}) {
      const Setting setting{model, {"alone"}, lora};
      const selftest::Outcome exact = outcome_of(setting, SavedActivations::kAsComputed);
      for (const auto& [saved, least, most] : kBounds) {
        const selftest::Outcome found = outcome_of(setting, saved);
        EXPECT_EQ(found.losses.front(), exact.losses.front()) << setting.name();
        const double off = difference(found, exact);
        std::printf("%s %s: %.5f\n", setting.name().c_str(), config::name_of(saved).c_str(), off);
        EXPECT_GT(off, least) << setting.name() << ' ' << config::name_of(saved);
        EXPECT_LT(off, most) << setting.name() << ' ' << config::name_of(saved);
      }
    }
}

TEST(SavedActivations, AreTheSameOnAnyRanks) {
  for (const char* name : {"T5", "LLaMA"})
    for (const Strategy& strategy : selftest::strategies(2)) {
      const TinyModel model = model_named(name);
      if (!strategy.share_memory || !selftest::supports(model, strategy)) continue;
      for (const bool recompute : {false, true})
        for (const auto& [saved, least, most] : kBounds) {
          Setting setting{model, strategy};
          setting.micro_batches = strategy.degrees.pp_size > 1 ? 2 : 1;
          setting.recompute = recompute;
          // Sums in another order now and then cross the middle between two codes. Tensor-parallel ranks have slices of
          // rows, and so other blocks.
          const double different = strategy.degrees.tp_size > 1 ? most : most / 4;
          EXPECT_LT(difference(outcome_of(setting, saved), outcome_of(setting.reference(), saved)), different)
              << setting.name() << ' ' << config::name_of(saved);
        }
    }
}

}  // namespace
}  // namespace trainer::testing
