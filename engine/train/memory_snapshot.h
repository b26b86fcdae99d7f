#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/optim/optimizer.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::train {

/// An in-memory copy of this rank's trained weights and optimizer state, of the same size.
class MemorySnapshot {
 public:
  void take(parallel::ParallelModel& model, const optim::Optimizer& optimizer);
  /// Restores the state at the last take().
  void restore(parallel::ParallelModel& model, optim::Optimizer& optimizer) const;

 private:
  std::vector<at::Tensor> kept_;
  int64_t optimizer_steps_ = 0;
};

}  // namespace trainer::train
