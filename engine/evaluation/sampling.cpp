#include "engine/evaluation/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>

#include "models/nn/philox.h"

namespace trainer::evaluation {
namespace {

/// Uniform in [0, 1).
double uniform(uint64_t seed, int64_t position, int64_t step) {
  const auto p = static_cast<uint64_t>(position);
  const uint32_t counter[4] = {static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(step),
                               0};
  uint32_t words[4];
  nn::philox_words(nn::philox_key(seed, "sampling"), counter, words);
  return static_cast<double>(words[0]) * 0x1p-32;
}

/// The smallest n such that the first n of `order` have at least `part` of the total weight of the first `among`.
size_t count_with_part(const std::vector<int64_t>& order, const std::vector<double>& weight, size_t among,
                       double part) {
  double all = 0, sum = 0;
  for (size_t i = 0; i < among; ++i) all += weight[static_cast<size_t>(order[i])];
  for (size_t i = 0; i < among; ++i)
    if ((sum += weight[static_cast<size_t>(order[i])]) >= part * all) return i + 1;
  return among;
}

/// The weight of each token: its probability over the largest one.
std::vector<double> weights(const float* logits, int64_t count, double temperature) {
  const float largest = *std::max_element(logits, logits + count);
  std::vector<double> weight(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    weight[static_cast<size_t>(i)] = std::exp((static_cast<double>(logits[i]) - largest) / temperature);
  return weight;
}

std::vector<int64_t> candidates_of(const float* logits, const std::vector<double>& weight, const Sampling& sampling) {
  std::vector<int64_t> order(weight.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  size_t among = sampling.top_k > 0 ? std::min(order.size(), static_cast<size_t>(sampling.top_k)) : order.size();
  if (sampling.top_p < 1) among = count_with_part(order, weight, among, sampling.top_p);
  while (among > 1 && weight[static_cast<size_t>(order[among - 1])] < sampling.min_p) --among;
  order.resize(among);
  return order;
}

int64_t draw_token(const float* logits, int64_t count, const Sampling& sampling, double u) {
  const std::vector<double> weight = weights(logits, count, sampling.temperature);
  const std::vector<int64_t> order = candidates_of(logits, weight, sampling);
  return order[count_with_part(order, weight, order.size(), std::max(u, 1e-300)) - 1];
}

}  // namespace

void penalize(float* logits, const std::vector<int64_t>& seen, double penalty) {
  for (const int64_t token : std::set<int64_t>(seen.begin(), seen.end())) {
    const double value = logits[token];
    logits[token] = static_cast<float>(value < 0 ? value * penalty : value / penalty);
  }
}

std::vector<int64_t> candidates(const float* logits, int64_t count, const Sampling& sampling) {
  return candidates_of(logits, weights(logits, count, sampling.temperature), sampling);
}

at::Tensor next_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<int64_t>& positions,
                       const std::vector<int64_t>& steps, const std::vector<std::vector<int64_t>>& seen) {
  if (logits.is_meta()) return at::argmax(logits, -1);
  const bool penalizes = sampling.repetition_penalty != 1;
  if (sampling.temperature <= 0 && !penalizes) return at::argmax(logits, -1).to(at::kCPU);
  at::Tensor rows = logits.to(at::kCPU, at::kFloat).contiguous();
  if (penalizes) {
    rows = rows.clone();
    for (int64_t s = 0; s < rows.size(0); ++s)
      penalize(rows.data_ptr<float>() + s * rows.size(1), seen.at(static_cast<size_t>(s)), sampling.repetition_penalty);
  }
  if (sampling.temperature <= 0) return at::argmax(rows, -1);
  const at::Tensor tokens = at::empty({rows.size(0)}, at::kLong);
  for (int64_t s = 0; s < rows.size(0); ++s)
    tokens.data_ptr<int64_t>()[s] =
        draw_token(rows.const_data_ptr<float>() + s * rows.size(1), rows.size(1), sampling,
                   uniform(sampling.seed, positions[static_cast<size_t>(s)], steps[static_cast<size_t>(s)]));
  return tokens;
}

}  // namespace trainer::evaluation
