#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/optim/optimizer.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::train {

/// This rank's trained weights and optimiser state as they once were, kept in memory: as much again as they take.
class MemorySnapshot {
 public:
  void take(parallel::ParallelModel& model, const optim::Optimizer& optimizer);
  /// Puts all back as it was when it was taken.
  void restore(parallel::ParallelModel& model, optim::Optimizer& optimizer) const;

 private:
  std::vector<at::Tensor> kept_;
  int64_t optimizer_steps_ = 0;
};

}  // namespace trainer::train
