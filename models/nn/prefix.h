// Learnt keys and values that stand before every sample's own in self-attention (prefix tuning). Positions count them.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/pass.h"

namespace trainer::nn {

/// The same for every sample, one pair a block. Source: Li and Liang 2021.
struct Prefix {
  int64_t tokens = 0;
  std::vector<at::Tensor> keys, values;  // by block: [tokens, heads of keys * d]
};

/// Tokens before every sample's own: 0 without a prefix.
int64_t prefix_tokens(const Pass& pass);

struct KeysAndValues {
  at::Tensor k, v;  // [T, heads of keys * d]
  LayoutPtr rows;
};
/// `own` of every sample with the prefix of `block` in front; as it is when the pass has none.
KeysAndValues with_prefix(KeysAndValues own, const Pass& pass, int64_t block);

/// Room for `cache.capacity` tokens of each of `samples` behind the prefix of `block`, in `kept` when it has none yet.
void make_room(DecodeCache::Block& kept, const KeysAndValues& own, int64_t samples, const Pass& pass, int64_t block);

}  // namespace trainer::nn
