// Learned keys and values in front of every sample's own in self-attention (prefix tuning). They take up positions.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/pass.h"

namespace trainer::nn {

/// The same for every sample, one pair per block. Source: Li and Liang 2021.
struct Prefix {
  int64_t tokens = 0;
  std::vector<at::Tensor> keys, values;  // per block: [tokens, kv_heads * d]
};

/// Number of prefix tokens before every sample: 0 without a prefix.
int64_t prefix_tokens(const Pass& pass);

struct KeysAndValues {
  at::Tensor k, v;  // [T, kv_heads * d]
  LayoutPtr rows;
};
/// `own` with the prefix of `block` in front of every sample; unchanged if the pass has none.
KeysAndValues with_prefix(KeysAndValues own, const Pass& pass, int64_t block);

/// Allocates `kept`, if not yet done: room for `cache.capacity` tokens per slot after the prefix of `block`.
void make_room(DecodeCache::Block& kept, const KeysAndValues& own, const Pass& pass, int64_t block);

}  // namespace trainer::nn
