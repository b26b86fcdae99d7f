// The context of a forward pass: everything that layers need besides their inputs, the same for all of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"
#include "models/nn/preference_loss.h"
#include "models/nn/rows.h"

namespace trainer::nn {

/// What decoding keeps from step to step: keys and values, one entry per decoder block, in a slot for each sample that
/// is decoded at a time.
struct DecodeCache {
  struct Block {
    at::Tensor self_k, self_v;    // [slots, prefix + capacity, kv_heads * d]
    at::Tensor cross_k, cross_v;  // [source tokens, H*d], of the samples of the step
  };
  std::vector<Block> blocks;
  int64_t slots = 0, capacity = 0;

  // The samples of a step, in the order of their slots.
  LayoutPtr step;                // their rows: the last token of each, or all first ones of a sample that is new
  std::vector<int64_t> slot;     // of each
  std::vector<int64_t> lengths;  // the tokens of each in the cache
  // Encoder-decoder models:
  LayoutPtr sources;  // the rows of each in cross_k
  Rows memory;        // the encoder's output for those that are new; undefined without any
  at::Tensor
      source_rows;  // then, the new cross_k as indices [source tokens] of the old one and of memory's rows after it
};

struct Prefix;

struct Pass {
  bool training = false;                 // dropout is drawn
  uint64_t seed = 0;                     // of the run
  double embedding_noise = 0;            // models/nn/embedding_noise.h
  double label_smoothing = 0;            // weight of the uniform distribution in the target
  PreferenceOptions preference{};        // for batches of pairs, instead of label_smoothing
  std::shared_ptr<RewardSums> rewards;   // of pairs; null: nobody asks for them
  RowsToLoss rows_to_loss{};             // set by models for the head's loss
  float loss_grad = 1;                   // the gradient that backward will give a sum of losses, as far as is known
  at::Tensor device_loss_grad;           // its value in a graph, fp32 on the device; undefined: loss_grad
  at::ScalarType compute = at::kFloat;   // dtype of linear layers and of the activations between them
  DecodeCache* cache = nullptr;          // generation only
  std::shared_ptr<const Prefix> prefix;  // of every sample (models/nn/prefix.h); usually null

  /// The rule of the dropout at `place` ("<module path>.<name>") with rate `p`; inactive outside training. `first`: the
  /// index of this rank's first element, or head, under tensor parallelism.
  DropoutRule dropout(std::string_view place, double p, int64_t first = 0) const {
    if (!training || p <= 0) return {};
    DropoutRule rule = dropout_rule(philox_key(seed, place), p);
    rule.first = first;
    return rule;
  }
};

}  // namespace trainer::nn
