#pragma once

#include <string>
#include <vector>

#include "engine/optim/optimizer.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::checkpoint {

/// The state that a checkpoint saves besides progress.
struct RunState {
  parallel::ParallelModel& model;
  optim::Optimizer& optimizer;
};

/// This rank's shard of a saved tensor, in place.
struct LiveTensor {
  std::string kind;  // "parameter", or a kind of optimizer state
  parallel::LogicalTensor tensor;

  /// Its name in files.
  std::string entry() const { return kind + "/" + tensor.name; }
};

inline constexpr const char* kParameter = "parameter";

/// The trained parameters (frozen ones can be read again from their source) and the optimizer state.
std::vector<LiveTensor> live_tensors(const RunState& state);

}  // namespace trainer::checkpoint
