// The reference of preferences: the model before its first update.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/samples/samples.h"
#include "engine/config/sections/training.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::train {

// Note [Reference]
// The loss of a pair compares the log-probabilities of its texts with those that the reference gives them. These never
// change, so they are computed once, before the first update, without dropout: one forward pass over the pairs, and 16
// bytes of memory for each; the run's only model is the one it trains. The reference is the model with the values it is
// loaded with: those of model.path, with the adapter of lora.path, if any (a new adapter changes nothing yet).
//
// A run that resumes also loads these values before the checkpoint's, so what its file of log-probabilities lacks can
// still be computed. What the file has is used as it is: a resumed run continues with the same bits, also on another
// number of ranks, whose sums may round differently.

/// How many pairs, or at most how many tokens, a rank takes at a time; 0: not limited by tokens.
struct ReferenceBatches {
  int64_t pairs = 1, tokens = 0;
};

/// Collective. The log-probabilities of the chosen and the rejected text of each pair by `model` as it is now, [pairs,
/// 2] fp64 on the CPU, the same on every rank. NaN for those not in `indices`.
at::Tensor reference_log_probs(parallel::ParallelModel& model, const data::Samples& pairs,
                               const std::vector<int64_t>& indices, ReferenceBatches batches);

/// All of them, for evaluation.
std::shared_ptr<const data::Samples> with_reference(parallel::ParallelModel& model,
                                                    std::shared_ptr<const data::Samples> pairs,
                                                    const config::TrainingConfig& training);

}  // namespace trainer::train
