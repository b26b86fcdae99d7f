// Saving a run so that it goes on as if it had never stopped, and loading it again under any strategy.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/checkpoint/manifest.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::checkpoint {

/// What goes into a checkpoint besides progress.
struct RunState {
  parallel::ParallelModel& model;
  optim::Optimizer& optimizer;
};

/// Collective. Writes the trained parameters and the optimiser state, each rank its own pieces, and publishes the
/// folder atomically: a crash at any moment leaves this checkpoint whole or not at all, and the earlier ones untouched.
/// `also` is called on every rank with the growing folder, to put further files into it. Errors: MachineError.
void save(const std::filesystem::path& output_dir, Manifest about, const RunState& state,
          const std::function<void(const std::filesystem::path& folder)>& also);

/// Collective. Fills parameters and optimiser state from a checkpoint of any strategy and number of ranks.
/// Errors: InputError when it is of another model (first differences named), damaged, or of another optimiser.
Manifest load(const std::filesystem::path& folder, const RunState& state);

}  // namespace trainer::checkpoint
