// Kernels over the rows of a block of attention's scores.
#pragma once

#include <cstdint>

#include "models/nn/attention.h"

namespace trainer::nn {

/// Keys [first, end) of a sample.
struct KeyRange {
  int64_t first, end;
  int64_t size() const { return end - first; }
};

/// Those that the query at `position` attends to, of `keys`.
KeyRange visible_keys(const AttentionOptions& options, int64_t position, int64_t keys);

/// In place over one row of scores: softmax over `visible`, 0 elsewhere.
void softmax_row(float* row, int64_t n, KeyRange visible);

/// In place: the gradient of scores from the gradient of probabilities, ds = p (dp - sum(p dp)).
void softmax_backward_row(const float* p, float* dp, int64_t n);

/// In place: scores become cap * tanh(score / cap); `slope` is the derivative of each.
void cap_scores(float cap, int64_t n, float* scores, float* slope);

/// out = a * b.
void multiply_row(const float* a, const float* b, int64_t n, float* out);

/// out += a.
void add_row(const float* a, int64_t n, float* out);

}  // namespace trainer::nn
