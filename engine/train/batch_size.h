// Finds the largest batch that fits (auto_find_batch_size), and checks that the configured one does.
#pragma once

#include "engine/dist/comm.h"
#include "engine/train/build.h"

namespace trainer::train {

/// The largest per_device_train_batch_size, up to the plan's, with which the longest batches of the run fit into
/// `free_bytes` on each rank; 0 when even 1 does not. They are tried on tensors without memory (Note [Dry run]), not by
/// allocating: Linux overcommits memory and then kills the process.
int64_t largest_batch_size(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes);

/// Collective. Sets the plan's per_device_train_batch_size to what fits on every rank, and keeps its global batch.
/// `free_bytes`: the memory that this rank can use. Errors: MachineError when no sample fits.
void find_batch_size(config::Plan& plan, const prepare::Inputs& inputs, dist::Comm& comm, int64_t free_bytes);

/// Checks before weights are read that this rank's memory fits into `free_bytes` of its device. Errors: MachineError
/// that lists what would fit.
void check_memory(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes);

}  // namespace trainer::train
