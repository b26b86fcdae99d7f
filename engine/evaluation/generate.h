#pragma once

#include <functional>
#include <vector>

#include "engine/evaluation/beam_search.h"
#include "engine/evaluation/sampling.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::evaluation {

/// Batches whose samples are best given to generate() together, `at_once` as many as one has: at their end, slots stay
/// empty.
inline constexpr int64_t kBatchesTogether = 8;

struct Generation {
  int64_t max_new_tokens = 0;
  int64_t at_once = 0;  // samples that are decoded at a time: one that has ended makes room for the next; 0: all
  Sampling sampling = {};
  Beams beams = {};  // several: the best text is searched for, on one stage of a pipeline; of `sampling`, only its
                     // repetition penalty counts, and `proceeds` isn't called
  std::vector<int64_t> end_tokens = {};  // empty: the model's own
  /// Called with each token of each sample's text; false: the text ends with it. It may be null.
  std::function<bool(size_t sample, int64_t token)> proceeds = nullptr;
  std::vector<float>* scores = nullptr;  // if not null: filled with the scores of a beam search's texts
};

/// Collective. The new tokens of each sample of this rank, up to but excluding the end token; for beams, of its
/// `returned` texts in a row. All ranks decode until every rank is done, so that they make the same number of forward
/// calls.
std::vector<std::vector<int64_t>> generate(parallel::ParallelModel& model, const models::Batch& batch,
                                           const nn::Pass& pass, const Generation& options);

inline std::vector<std::vector<int64_t>> generate(parallel::ParallelModel& model, const models::Batch& batch,
                                                  int64_t max_new_tokens, const nn::Pass& pass,
                                                  const Sampling& sampling = {}) {
  return generate(model, batch, pass, {.max_new_tokens = max_new_tokens, .sampling = sampling});
}

}  // namespace trainer::evaluation
