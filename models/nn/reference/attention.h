#pragma once

#include "models/nn/attention.h"

namespace trainer::nn::reference {

constexpr int64_t kMostScores = 1 << 25;

/// nn::packed_attention. While a layer computes, the scores of some heads exist in memory: padded [samples, heads, longest,
/// longest] fp32, at most `most_scores` of them, or those of the query heads that share one key head.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options,
                            int64_t most_scores = kMostScores);

}  // namespace trainer::nn::reference
