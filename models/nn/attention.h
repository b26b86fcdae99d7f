// Attention over packed rows: each sample attends only to itself, without padding.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"
#include "models/nn/layout.h"

namespace trainer::nn {

struct AttentionOptions {
  int64_t heads = 1;
  bool causal = false;
  double scale = 1.0;
  DropoutRule dropout;   // of the probabilities; drawn per (sample, query token, head, key)
  int64_t kv_heads = 0;  // 0: as many as heads; else query head h reads keys and values of head h / (heads / kv_heads)
  // 0: none; else a token attends to itself and window - 1 before it (and after it, if not causal)
  int64_t window = 0;
  double soft_cap = 0;    // 0: none; else scores are soft_cap * tanh(score / soft_cap) before the bias (Gemma 2)
  bool decoding = false;  // a step of it, which has no backward (models/nn/single_query.h)

  /// Query heads that read the same keys and values.
  int64_t group() const { return kv_heads > 0 ? heads / kv_heads : 1; }
};

/// softmax(scale * q k^T + bias) v for every sample and head, computed in fp32, returned in q's dtype.
/// q [Tq, H*d] laid out by `queries`; k, v [Tk, kv_heads*d] laid out by `keys` (the same samples in the same order). A
/// sample's queries are at the end of its keys: with more keys than queries, the first keys were decoded earlier.
/// bias: undefined, or [distances, H] fp32, whose row j - i + (distances - 1) / 2 is added where query i attends to key
/// j (a relative position bias, as in T5). Memory is linear in the tokens: no [H, T, T] tensor of biases or
/// probabilities exists; backward recomputes them and redraws the mask. Results do not depend on threads or on other
/// samples.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options);

}  // namespace trainer::nn
