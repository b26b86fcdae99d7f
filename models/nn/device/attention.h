#pragma once

#include "models/nn/device/attention_call.h"

namespace trainer::nn::device {

/// nn::packed_attention by each of the fused kinds of Note [Attention on devices], where choose_attention allows it.
/// Backward saves q, k, v, the result, and 4 bytes for each query and head. Rows of k and v outside of the spans have
/// no gradient: with one, the spans must cover all rows.
at::Tensor cudnn_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionCall& call);
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionCall& call);
/// The spans must cover all rows of k and v.
at::Tensor efficient_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionCall& call);
at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const AttentionCall& call);

/// nn::packed_attention, where layers run as reference layers.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options);

}  // namespace trainer::nn::device
