// The settings that the self-test covers.
#pragma once

#include <vector>

#include "engine/selftest/setting.h"

namespace trainer::selftest {

std::vector<TinyModel> tiny_models(int64_t head = 6);
/// Models that can be divided into that many tensor-parallel slices and pipeline chunks.
std::vector<TinyModel> tiny_models_for(int64_t slices, int64_t chunks);
/// Whether the model has what the strategy needs: tensor, context or pipeline parallelism.
bool supports(const TinyModel& model, const Strategy& strategy);
/// Every strategy that `ranks` ranks can run. `on_devices`: they compute on GPUs, from which shards can be offloaded.
std::vector<Strategy> strategies(int ranks, bool on_devices = false);

/// Every model x full and LoRA x every strategy x 1 and 4 micro-batches x recomputation on and off, with dropout on;
/// and some of these in bf16.
std::vector<Setting> full_matrix(int ranks, bool on_devices = false);
/// A subset in which every two choices occur together at least once.
std::vector<Setting> pairwise_matrix(int ranks, bool on_devices = false);
/// `count` settings with models of random sizes, drawn from `seed`.
std::vector<Setting> random_settings(int ranks, uint64_t seed, int64_t count, bool on_devices = false);

}  // namespace trainer::selftest
