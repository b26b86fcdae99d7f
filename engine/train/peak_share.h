// How much of the machine's speed a run uses.
#pragma once

#include "data/samples/datasets.h"
#include "engine/config/plan/plan.h"
#include "engine/dist/comm.h"

namespace trainer::train {

// Note [Share of the peak]
// The numerator are model FLOPs: of each token 6 for every trained weight of a linear layer (4 for a frozen one), and
// three times the products of attention's forward. Recomputation and padding don't count. The denominator is the speed
// of a plain matrix product on this machine, measured, so the share says what is left to gain here, whatever a data
// sheet promises.

/// Model FLOPs of a token, on average over the training samples: a dry run of a sample of mean length, on one rank.
/// Takes as long as one forward pass takes the host, without computing.
double flops_per_token(const config::Plan& plan, const data::Datasets& datasets);

/// FLOP/s of matrix products of all ranks of the run, of which one does `one`, measured while the others of its machine
/// wait. `cpus`: of this machine, which its ranks share; 0: each rank has a device of its own.
double peak_of_run(double one, int64_t ranks, int64_t machines, int64_t threads, int64_t cpus);

/// FLOP/s of matrix products of the run: known from an earlier run on this machine, or measured now, in a quarter of a
/// second, and remembered. 0 when the device has no memory left for it.
double run_peak(const config::Plan& plan, at::ScalarType dtype, const dist::Comm& comm);

}  // namespace trainer::train
