// Attention over packed rows: each sample attends only inside itself, and nothing is padded.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"
#include "models/nn/layout.h"

namespace trainer::nn {

struct AttentionOptions {
  int64_t heads = 1;
  bool causal = false;
  double scale = 1.0;
  int64_t query_offset = 0;  // position of a sample's first query: the number of tokens already decoded
  DropoutRule dropout;       // on the probabilities; drawn per (sample, query token, head, key)
};

/// softmax(scale * q k^T + bias) v for every sample and head, in fp32 inside, returned in q's dtype.
/// q [Tq, H*d] with rows `queries`; k, v [Tk, H*d] with rows `keys` (the same samples in the same order).
/// bias: undefined, or [distances, H] fp32 whose row j - i + (distances - 1) / 2 is added where query i meets key j
/// (a bias by distance, as T5's; no [H, T, T] tensor exists). Probabilities are saved for backward, masks are redrawn.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options);

}  // namespace trainer::nn
