// Elastic runs: the number of machines can change.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/plan/plan.h"

namespace trainer::config {

// Note [Elastic runs]
// `num_machines: "1:4"` is num_machines 4 with min_machines 1. num_processes counts the ranks of all four machines, and
// each machine runs a quarter of them, however many machines take part. The updates do not depend on the number of
// machines: the global batch is that of the full size, and the available ranks share it (sample order is a function of
// only the seed and the sample's index). So a generation with fewer machines makes the updates that the full run would
// have made, up to rounding.

/// Default of max_restarts for elastic runs: how many losses of ranks or machines can restart the run.
inline constexpr int64_t kRestartsOfElasticRuns = 3;

/// Whether the run can continue with fewer machines than num_machines.
bool is_elastic(const Config& config);

/// The numbers of machines that it can run with, in increasing order up to num_machines. Excludes numbers whose ranks
/// don't fit the sizes of the mesh.
std::vector<int64_t> usable_machines(const Config& config);
/// The other numbers from min_machines on.
std::vector<int64_t> unusable_machines(const Config& config);

/// `plan` for `machines` machines, one of usable_machines(). This machine has the rank `machine`, from 0 without gaps.
Plan plan_for_machines(const Plan& plan, int64_t machines, int64_t machine);

}  // namespace trainer::config
