// A run whose number of machines may change.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/plan.h"

namespace trainer::config {

// Note [Elastic runs]
// `num_machines: "1:4"` is num_machines 4 with min_machines 1. num_processes counts the ranks of all four, and every
// machine runs its quarter of them, however many are there. What an update is does not change with them: the global
// batch is that of the full size, and the ranks share it (data order is a function of the seed and the position alone).
// So a life with fewer machines makes the updates that the full run would have made, up to rounding.

/// How often losses may cost such a run a life where max_restarts isn't given.
inline constexpr int64_t kRestartsOfElasticRuns = 3;

/// Whether the run goes on with fewer machines than num_machines.
bool is_elastic(const Config& config);

/// With how many machines it can, in rising order: num_machines is the last. Left out are those whose ranks can't be
/// laid out as the sizes of the mesh ask.
std::vector<int64_t> usable_machines(const Config& config);
/// The others from min_machines on.
std::vector<int64_t> unusable_machines(const Config& config);

/// `plan` for `machines` machines, one of usable_machines(), of which this one is `machine`, counted from 0 without
/// gaps.
Plan plan_for_machines(const Plan& plan, int64_t machines, int64_t machine);

}  // namespace trainer::config
