// The settings that the self-test covers.
#pragma once

#include <vector>

#include "engine/selftest/setting.h"

namespace trainer::selftest {

std::vector<TinyModel> tiny_models(int64_t head = 6);
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
