#pragma once

#include <cstdint>

#include "engine/config/sections.h"

namespace trainer::prepare {

/// The length of a run.
struct RunLength {
  int64_t global_batch = 0;       // samples per update, over all ranks and accumulation steps
  int64_t updates_per_epoch = 0;  // the last one of each epoch may be smaller
  int64_t updates = 0;            // of the whole run
};
/// `samples`: 0 when unknown; then only `max_steps` gives the number of updates.
RunLength run_length(const config::Config& config, int64_t samples, int64_t ranks);

/// Samples per update: global_batch_size, or the product of batch size, accumulation steps and ranks.
int64_t global_batch(const config::TrainingConfig& options, int64_t ranks);

}  // namespace trainer::prepare
