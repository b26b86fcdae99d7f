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
  DropoutRule dropout;   // on the probabilities; drawn per (sample, query token, head, key)
  int64_t kv_heads = 0;  // 0: as many as heads; else query head h reads keys and values of head h / (heads / kv_heads)
  int64_t window = 0;    // 0: none; else a token sees itself and window - 1 before it (and after it, if not causal)
};

/// softmax(scale * q k^T + bias) v for every sample and head, in fp32 inside, returned in q's dtype.
/// q [Tq, H*d] with rows `queries`; k, v [Tk, kv_heads*d] with rows `keys` (the same samples in the same order). A
/// sample's queries stand at the end of its keys: with more keys than queries, the first ones were decoded before.
/// bias: undefined, or [distances, H] fp32 whose row j - i + (distances - 1) / 2 is added where query i meets key j
/// (a bias by distance, as T5's). Memory is linear in the tokens: no [H, T, T] tensor exists, neither of biases nor of
/// probabilities, which backward computes again and masks anew. Results do not depend on threads or on other samples.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options);

}  // namespace trainer::nn
