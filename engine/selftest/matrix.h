// Which settings the self-test goes through.
#pragma once

#include <vector>

#include "engine/selftest/setting.h"

namespace trainer::selftest {

std::vector<TinyModel> tiny_models();
/// Every strategy that `ranks` ranks can run.
std::vector<Strategy> strategies(int ranks);

/// Every model x full and LoRA x every strategy x 1 and 4 micro-batches x recomputation on and off, with dropout on;
/// and some in bf16.
std::vector<Setting> full_matrix(int ranks);
/// A few of them, in which every two choices meet at least once.
std::vector<Setting> pairwise_matrix(int ranks);
/// `count` settings of models of random sizes, from `seed`.
std::vector<Setting> random_settings(int ranks, uint64_t seed, int64_t count);

}  // namespace trainer::selftest
