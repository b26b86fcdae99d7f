#pragma once

#include <vector>

#include "engine/parallel/parallel_model.h"

namespace trainer::evaluation {

struct Classes {
  double loss = 0;               // the sum over the samples
  std::vector<int64_t> classes;  // of each sample
};

/// Collective. The predicted class of each sample of this rank, and the sum of their losses.
Classes classify(parallel::ParallelModel& model, const models::Batch& batch, const nn::Pass& pass);

}  // namespace trainer::evaluation
