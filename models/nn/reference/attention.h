#pragma once

#include "models/nn/attention.h"

namespace trainer::nn::reference {

/// nn::packed_attention. While a layer computes, all its scores exist in memory: padded [samples, H, longest, longest]
/// fp32.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options);

}  // namespace trainer::nn::reference
