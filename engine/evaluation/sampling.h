#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::evaluation {

/// How the next token is chosen.
struct Sampling {
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // sample among the k most likely tokens; 0: among all
  double top_p = 1;        // sample among the fewest tokens with this total probability
  uint64_t seed = 0;
  double min_p = 0;               // sample among the tokens with at least this part of the largest probability
  double repetition_penalty = 1;  // divides the positive logits of tokens that the text has, and multiplies the others
};

/// The tokens among which sampling draws, the likeliest first: those of `logits` [V] that temperature, top_k, top_p and
/// min_p leave, as in transformers.
std::vector<int64_t> candidates(const float* logits, int64_t count, const Sampling& sampling);

/// Applies a repetition penalty to the logits, or log-probabilities, of the tokens that a text has.
void penalize(float* logits, const std::vector<int64_t>& seen, double penalty);

/// One token for each row of logits [samples, V], int64 [samples]. A draw is a pure function of (seed, `positions`[s],
/// `steps`[s]), independent of ranks and batches. `seen`: the tokens of each text so far, needed for a repetition
/// penalty only, which precedes the rest.
at::Tensor next_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<int64_t>& positions,
                       const std::vector<int64_t>& steps, const std::vector<std::vector<int64_t>>& seen = {});

}  // namespace trainer::evaluation
