#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/nn/feed_forward.h"
#include "models/registry.h"

namespace trainer::models::bert {

/// config.json of BERT: Hugging Face's names and defaults.
struct BertConfig {
  std::vector<std::string> labels;  // class names
  int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
          intermediate_size = 3072, max_position_embeddings = 512, type_vocab_size = 2;
  std::string hidden_act = "gelu";
  nn::Activation activation = nn::Activation::kGelu;  // hidden_act
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1;
  double classifier_dropout = 0.1;  // null: hidden_dropout_prob
  double initializer_range = 0.02, layer_norm_eps = 1e-12;
  int64_t pad_token_id = 0;

  int64_t head_dim() const { return hidden_size / num_attention_heads; }
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
BertConfig parse_config(const BuildRequest& request);

std::string config_json(const BertConfig& config);

}  // namespace trainer::models::bert
