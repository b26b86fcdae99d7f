#pragma once

#include "engine/parallel/schedule.h"

namespace trainer::parallel {

/// One stage: the forward and then the backward of each micro-batch in turn.
class StraightSchedule : public Schedule {
 public:
  using Schedule::Schedule;
  ScalarSum update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass, const Root& root) override;
};

}  // namespace trainer::parallel
