// What a forward pass must know besides its tensors.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"
#include "models/nn/layout.h"

namespace trainer::nn {

/// What decoding keeps from token to token: keys and values, one entry a decoder block; filled as decoding goes on.
struct DecodeCache {
  struct Block {
    at::Tensor self_k, self_v;    // [samples, a prefix and capacity, heads of keys * d]
    at::Tensor cross_k, cross_v;  // [source tokens, H*d]
  };
  std::vector<Block> blocks;
  at::Tensor memory;    // the encoder's output [source tokens, D]
  int64_t decoded = 0;  // tokens already in the cache
  int64_t capacity = 0;
  std::vector<int64_t> lengths;  // decoder only: tokens of each sample in the cache, its prompt's among them
};

struct Prefix;

struct Pass {
  bool training = false;                 // dropout is drawn
  uint64_t seed = 0;                     // of the run
  double label_smoothing = 0;            // share of the loss that asks for all tokens alike
  at::ScalarType compute = at::kFloat;   // dtype of linear layers and of what flows between them
  LayoutPtr source, target;              // rows of the encoder's and the decoder's tokens
  LayoutPtr rows;                        // of a single layer's input, when it is called through its wrappers
  LayoutPtr stream;                      // this rank's rows between shared layers, where ranks share them; else null
  DecodeCache* cache = nullptr;          // generation only
  std::shared_ptr<const Prefix> prefix;  // of every sample (models/nn/prefix.h); mostly none

  /// The rule of the dropout at `place` ("<module path>.<what>") with rate `p`; inactive outside training. `first`: the
  /// number of the first element, or head, where ranks share them.
  DropoutRule dropout(std::string_view place, double p, int64_t first = 0) const {
    if (!training || p <= 0) return {};
    DropoutRule rule = dropout_rule(philox_key(seed, place), p);
    rule.first = first;
    return rule;
  }
};

}  // namespace trainer::nn
