#pragma once

#include <cstdint>

#include "engine/config/sections.h"

namespace trainer::prepare {

/// How long a run is.
struct RunLength {
  int64_t global_batch = 0;       // samples an update, over all ranks and accumulation steps
  int64_t updates_per_epoch = 0;  // the last one of each epoch holds what is left
  int64_t updates = 0;            // of the whole run
};
/// Of 0 samples, where they are not known, only `max_steps` tell.
RunLength run_length(const config::Config& config, int64_t samples, int64_t ranks);

/// Samples an update when nothing says otherwise.
int64_t global_batch(const config::TrainingConfig& options, int64_t ranks);

}  // namespace trainer::prepare
