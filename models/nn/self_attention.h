// Self-attention of one model block: over whole samples, or one decoding step.
#pragma once

#include <vector>

#include "models/nn/attention.h"
#include "models/nn/pass.h"
#include "models/nn/prefix.h"

namespace trainer::nn {

/// Attention of q [T, heads*d] to k and v [T, kv_heads*d], laid out by `rows`, rotary positions already applied →
/// [T, heads*d] in q's dtype. A prefix (pass.prefix) precedes each sample's keys. While decoding (pass.cache), it
/// attends to cached_rows(). Under sequence or context parallelism, it is causal and a collective of the group.
at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const LayoutPtr& rows,
                          const AttentionOptions& options, const Pass& pass, int64_t block);

/// Decoding: appends `own`, the keys and values of a step's rows, to the cached ones of their samples in `block`, and
/// returns these, after the prefix. The caller of decode() advances the cache's lengths after the last block.
/// Errors: InternalError where a sample does not fit into the cache's capacity.
KeysAndValues cached_rows(const KeysAndValues& own, const Pass& pass, int64_t block);

/// Number of positions before the rows of a sample: the prefix and the sample's cached tokens.
int64_t positions_before(const Pass& pass, int64_t sample);
/// Position of every row in its sample, after positions_before(): [T].
std::vector<int64_t> row_positions(const Layout& rows, const Pass& pass);

}  // namespace trainer::nn
