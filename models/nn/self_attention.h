// Self-attention of one block of a model: over whole samples, or one step on while decoding.
#pragma once

#include <vector>

#include "models/nn/attention.h"
#include "models/nn/pass.h"

namespace trainer::nn {

struct SelfAttentionOptions {
  int64_t heads = 1, kv_heads = 1;  // query head h reads the keys and values of head h / (heads / kv_heads)
  bool causal = true;
  int64_t window = 0;  // 0: none; else a token sees itself and window - 1 before it (and after it, if not causal)
  double scale = 1.0;
  DropoutRule dropout;
};

/// Attention of q [T, heads*d] to k and v [T, kv_heads*d], rows by `rows`, rotary positions already applied →
/// [T, heads*d] in q's dtype. A prefix (pass.prefix) stands before each sample's keys. While decoding (pass.cache with
/// lengths) it puts k and v behind what the cache holds of each sample for `block`, and attends to all of that; the
/// lengths are moved on by the caller, after the last block. Throws InternalError when a sample does not fit into the
/// cache's capacity. Where ranks share the rows of samples, it is causal, and a collective of theirs.
at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const LayoutPtr& rows,
                          const SelfAttentionOptions& options, const Pass& pass, int64_t block);

/// Positions that come before the rows of a sample: of the prefix, and of what the cache already holds of the sample.
int64_t positions_before(const Pass& pass, int64_t sample);
/// Position of every row within its sample, those before it counted: [T].
std::vector<int64_t> row_positions(const Layout& rows, const Pass& pass);

}  // namespace trainer::nn
