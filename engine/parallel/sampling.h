#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::parallel {

/// How the next token is chosen.
struct Sampling {
  double temperature = 0;  // 0: always the most likely one
  int64_t top_k = 0;       // among the k most likely ones; 0: all
  double top_p = 1;        // among the fewest that have this probability together
  uint64_t seed = 0;
};

/// One token for each row of logits [samples, V], int64 [samples]. A draw is a pure function of (seed, `positions`[s],
/// `step`), whatever the ranks and batches.
at::Tensor next_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<int64_t>& positions,
                       int64_t step);

}  // namespace trainer::parallel
