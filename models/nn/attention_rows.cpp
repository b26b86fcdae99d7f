#include "models/nn/attention_rows.h"

#include <algorithm>
#include <limits>

#include "models/nn/fast_math.h"
#include "models/nn/kernel.h"

namespace trainer::nn {

KeyRange visible_keys(const AttentionOptions& options, int64_t position, int64_t keys) {
  const int64_t first = options.window > 0 ? position - options.window + 1 : 0;
  const int64_t end = options.causal ? position + 1 : options.window > 0 ? position + options.window : keys;
  const int64_t last = std::clamp<int64_t>(end, 0, keys);
  return {std::clamp<int64_t>(first, 0, last), last};
}

TRAINER_KERNEL void softmax_row(float* row, int64_t n, KeyRange visible) {
  const int64_t first = visible.first, end = visible.end;
  for (int64_t j = 0; j < first; ++j) row[j] = 0;
  for (int64_t j = end; j < n; ++j) row[j] = 0;
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t j = first; j < end; ++j) largest = row[j] > largest ? row[j] : largest;
#pragma omp simd
  for (int64_t j = first; j < end; ++j) row[j] = fast_exp(row[j] - largest);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = first; j < end; ++j) sum += row[j];
  const float inverse = 1.0F / sum;
#pragma omp simd
  for (int64_t j = first; j < end; ++j) row[j] *= inverse;
}

TRAINER_KERNEL void multiply_row(const float* a, const float* b, int64_t n, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) out[j] = a[j] * b[j];
}

TRAINER_KERNEL void add_row(const float* a, int64_t n, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) out[j] += a[j];
}

TRAINER_KERNEL void softmax_backward_row(const float* p, float* dp, int64_t n) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t j = 0; j < n; ++j) dot += p[j] * dp[j];
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - dot);
}

TRAINER_KERNEL void cap_scores(float cap, int64_t n, float* scores, float* slope) {
  const float inverse = 1.0F / cap;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float t = precise_tanh(scores[j] * inverse);
    scores[j] = cap * t;
    slope[j] = 1.0F - t * t;
  }
}

}  // namespace trainer::nn
