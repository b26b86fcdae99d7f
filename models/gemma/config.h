#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/nn/feed_forward.h"
#include "models/nn/parameter.h"
#include "models/nn/rope_options.h"
#include "models/registry.h"

namespace trainer::models::gemma {

enum class Generation { k1, k2, k3 };

/// config.json of a Gemma 1, 2 or 3 text model. The initial values are the defaults of all three; parse_config() sets
/// those that differ.
struct Config {
  Generation generation = Generation::k1;
  Task task = Task::kCausalLm;
  std::vector<std::string> labels;  // class names
  int64_t vocab_size = 256000, hidden_size = 2304, intermediate_size = 9216, layers = 26, heads = 8, kv_heads = 4,
          head_dim = 256, max_positions = 8192;
  std::string activation_name = "gelu_pytorch_tanh";
  nn::Activation activation = nn::Activation::kGeluNew;  // activation_name
  double rms_norm_eps = 1e-6, initializer_range = 0.02, attention_dropout = 0;
  bool attention_bias = false;                        // of q, k, v and o
  bool tied_head = true;                              // lm_head shares the embedding
  int64_t query_pre_attn_scalar = 256;                // Gemma 2, 3: scores are divided by its root
  double attention_soft_cap = 0, logit_soft_cap = 0;  // 0: none
  int64_t sliding_window = 0;                         // tokens a windowed layer attends to, including itself
  std::vector<bool> windowed;                         // per layer
  std::vector<int64_t> bos{2}, eos{1}, pad{0};
  nn::RopeByLayer rope;  // Gemma 1, 2: `full` for all layers

  /// Four norms per block: before and after attention, before and after the MLP.
  bool norms_outputs() const { return generation != Generation::k1; }
  bool qk_norm() const { return generation == Generation::k3; }
  bool rope_by_layer() const { return generation == Generation::k3; }
  double attention_scale() const;
  /// Initialization of linear layers and embeddings.
  nn::Init init() const { return {nn::Init::kNormal, initializer_range}; }
  bool classifies() const { return task == Task::kSequenceClassification; }
  /// Of the class names: "Gemma2".
  std::string prefix() const;
  std::string class_name() const;
  int64_t reach() const { return rope_by_layer() ? max_positions : rope.full.reach(); }
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
Config parse_config(const BuildRequest& request, Generation generation);

/// config.json as transformers 5 writes it; older versions are not supported.
std::string config_json(const Config& config);

}  // namespace trainer::models::gemma
