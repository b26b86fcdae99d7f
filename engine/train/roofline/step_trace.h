// What a rank does in an update, recorded by a dry run.
#pragma once

#include "engine/train/memory_plan.h"

namespace trainer::train {

struct StepTrace {
  int64_t micro_batches = 1;   // of `some`
  dist::DryTrace some, twice;  // forward, backward, exchange and norm of this many micro-batches, and of twice as many
  dist::DryTrace end;          // clipping, the optimizer, zeroing
  dist::DryTrace forward;      // of one micro-batch, without gradients
  double trained = 1;          // the part of the linear layers' weights that is trained
};

/// The part of the weights of `model`'s linear layers that is trained.
double trained_part(models::Model& model);

/// The first rank of pipeline stage `stage`, when every micro-batch is `batch`.
StepTrace trace_step(const config::Plan& plan, Blueprint blueprint, const Workload& workload, const BatchLengths& batch,
                     int64_t stage = 0);

}  // namespace trainer::train
