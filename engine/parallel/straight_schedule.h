#pragma once

#include "engine/parallel/schedule.h"

namespace trainer::parallel {

/// One stage: the forward and then the backward of each micro-batch in turn.
class StraightSchedule : public Schedule {
 public:
  using Schedule::Schedule;
  ScalarSum update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass, const Root& root) override;

 private:
  /// The sum of losses; `run` is what its backward needs.
  at::Tensor forward(const models::Batch& batch, const nn::Pass& pass, ForwardPassPtr& run);
  /// `last`: of the update, whose gradients are then reduced.
  void backward(const at::Tensor& loss, const Root& root, const ForwardPassPtr& run, bool last);
};

}  // namespace trainer::parallel
