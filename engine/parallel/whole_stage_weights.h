#pragma once

#include "engine/parallel/stage_weights.h"

namespace trainer::parallel {

/// Every rank of a stage holds all of it. Gradients are summed once per update.
class WholeStageWeights : public StageWeights {
 public:
  using StageWeights::StageWeights;
  void load(const WeightSource& source) override;

 protected:
  std::vector<LogicalTensor> held_tensors() override;
  void reduce_in_stage() override;

 private:
  at::Tensor gradients_;  // of everything that this rank trains, concatenated
};

}  // namespace trainer::parallel
