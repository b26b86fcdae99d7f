#pragma once

#include <string>
#include <vector>

#include "engine/optim/optimizer.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::checkpoint {

/// What goes into a checkpoint besides progress.
struct RunState {
  parallel::ParallelModel& model;
  optim::Optimizer& optimizer;
};

/// This rank's piece of what a checkpoint holds, where it lives.
struct LiveTensor {
  std::string kind;  // "parameter", or of the optimiser's state
  parallel::LogicalTensor tensor;

  /// What files call it.
  std::string entry() const { return kind + "/" + tensor.name; }
};

inline constexpr const char* kParameter = "parameter";

/// The trained parameters (frozen ones are where they came from) and the optimiser's state.
std::vector<LiveTensor> live_tensors(const RunState& state);

}  // namespace trainer::checkpoint
