#pragma once

#include <vector>

#include "engine/evaluation/sampling.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::evaluation {

/// Collective. The new tokens of each sample of this rank, up to but excluding the end token, chosen by `sampling`.
/// All ranks decode until every rank is done, so that they make the same number of forward calls.
std::vector<std::vector<int64_t>> generate(parallel::ParallelModel& model, const models::Batch& batch,
                                           int64_t max_new_tokens, const nn::Pass& pass, const Sampling& sampling = {});

}  // namespace trainer::evaluation
