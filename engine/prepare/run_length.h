#pragma once

#include <cstdint>

#include "engine/config/sections.h"

namespace trainer::prepare {

/// The length of a run.
struct RunLength {
  int64_t global_batch = 0;       // samples per update, over all ranks and accumulation steps
  int64_t updates_per_epoch = 0;  // the last one of each epoch may be smaller
  int64_t left_out = 0;           // samples that each epoch ends without
  int64_t updates = 0;            // of the whole run
};
/// `samples`: 0 when unknown; then only `max_steps` gives the number of updates.
RunLength run_length(const config::Config& config, int64_t samples, int64_t ranks);

/// Samples per update: global_batch_size, or the product of batch size, accumulation steps and ranks.
int64_t global_batch(const config::TrainingConfig& options, int64_t ranks);

/// How many of `samples` each epoch ends without: with dataloader_drop_last, those that don't fill the last batch. As
/// in transformers, it is one of all ranks, of which an update accumulates several; with global_batch_size, whose
/// batches depend on the number of ranks, it is an update. Errors: InputError if no sample is left.
int64_t samples_left_out(const config::TrainingConfig& options, int64_t samples, int64_t global_batch);

}  // namespace trainer::prepare
