#pragma once

#include <cstdint>
#include <string>

#include "models/nn/feed_forward.h"
#include "models/registry.h"

namespace trainer::models::t5 {

/// config.json of T5 (v1.0, v1.1, mT5): Hugging Face's names and defaults.
struct T5Config {
  int64_t vocab_size = 32128, d_model = 512, d_kv = 64, d_ff = 2048, num_layers = 6, num_decoder_layers = 6,
          num_heads = 8;
  int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  double dropout_rate = 0.1, layer_norm_epsilon = 1e-6, initializer_factor = 1.0;
  std::string feed_forward_proj = "relu";
  int64_t pad_token_id = 0, eos_token_id = 1, decoder_start_token_id = 0;
  bool tied_head = true;      // lm_head shares the embedding
  bool scale_outputs = true;  // multiply the decoder's output by d_model^-0.5 before the head
  // From feed_forward_proj:
  bool gated = false;
  nn::Activation activation = nn::Activation::kRelu;

  int64_t inner() const { return num_heads * d_kv; }
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
T5Config parse_config(const BuildRequest& request);

}  // namespace trainer::models::t5
