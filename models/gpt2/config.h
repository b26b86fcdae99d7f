#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/nn/feed_forward.h"
#include "models/nn/init.h"
#include "models/registry.h"

namespace trainer::models::gpt2 {

/// config.json of GPT-2: Hugging Face's names and defaults.
struct GPT2Config {
  Task task = Task::kCausalLm;
  std::vector<std::string> labels;  // class names
  int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  int64_t n_inner = 0;  // width of the feed-forward layer; null means 4 n_embd
  std::string activation_function = "gelu_new";
  nn::Activation activation = nn::Activation::kGeluNew;  // activation_function
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool scale_attn_weights = true;                // by 1 / sqrt(head_dim)
  bool scale_attn_by_inverse_layer_idx = false;  // also by 1 / (layer + 1)
  bool tied_head = true;                         // lm_head shares the embedding
  std::vector<int64_t> bos{50256}, eos{50256}, pad;

  int64_t head_dim() const { return n_embd / n_head; }
  nn::Init weight_init() const { return {nn::Init::kNormal, initializer_range}; }
  const char* class_name() const {
    return task == Task::kSequenceClassification ? "GPT2ForSequenceClassification" : "GPT2LMHeadModel";
  }
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
GPT2Config parse_config(const BuildRequest& request);

std::string config_json(const GPT2Config& config);

}  // namespace trainer::models::gpt2
