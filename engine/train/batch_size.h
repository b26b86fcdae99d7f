// The largest batch that fits (auto_find_batch_size), and whether the one that is asked for does.
#pragma once

#include "engine/dist/comm.h"
#include "engine/train/build.h"

namespace trainer::train {

/// The largest per_device_train_batch_size up to the plan's with which the longest batches of the run fit into
/// `free_bytes` for each rank; 0 when not even 1 does. They are tried on tensors without memory (Note [Dry run]): an
/// allocation that fails would not tell, as Linux promises memory that it doesn't have and then kills the process.
int64_t largest_batch_size(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes);

/// Collective. Sets the plan's per_device_train_batch_size to what fits on every rank, and keeps its global batch.
/// `free_bytes`: what this rank may take. Errors: MachineError when no sample fits.
void find_batch_size(config::Plan& plan, const prepare::Inputs& inputs, dist::Comm& comm, int64_t free_bytes);

/// Whether what this rank will hold fits into `free_bytes` of its device: before weights are read, not in the middle of
/// a run. Errors: MachineError that names what would fit.
void check_memory(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes);

}  // namespace trainer::train
