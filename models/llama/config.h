#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/nn/config_reader.h"
#include "models/nn/feed_forward.h"
#include "models/nn/parameter.h"
#include "models/nn/rope_options.h"
#include "models/registry.h"

namespace trainer::models::llama {

/// How the families of LLaMA's architecture differ in names, config.json keys and the defaults of missing ones.
struct Dialect {
  enum class Bias { kNever, kAlwaysQkv, kByKey };     // kByKey: `attention_bias`, for q, k, v and o
  // kByLayer: `use_sliding_window`, `layer_types`. kWithoutRope: the same, and `no_rope_layers` tells which layers are
  // rotated; the others have the window if `layer_types` doesn't say.
  enum class Window { kNone, kAllLayers, kByLayer, kWithoutRope };

  std::string model_type = "llama", name = "LLaMA";
  std::string prefix = "Llama";  // of the class names
  std::string text;              // "Text" in the names of Gemma 3's decoder and classifier
  Bias attention_bias = Bias::kByKey;
  bool mlp_bias_key = true;  // `mlp_bias` is a known key
  bool qk_norm = false;      // queries and keys are normalized per head before RoPE
  Window window = Window::kNone;
  int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008, layers = 32, heads = 32;
  int64_t max_positions = 2048;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: hidden_size / heads
  double rope_theta = nn::RopeOptions().theta;
  bool tied_head = false;
  std::vector<int64_t> bos{1}, eos{2}, pad{};
  std::string ia3_projection = "k_proj";  // that PEFT's IA3 scales by default, besides v_proj
};

/// config.json of a model of LLaMA's architecture.
struct Config {
  Dialect dialect;
  Task task = Task::kCausalLm;
  std::vector<std::string> labels;  // class names
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0,
          max_positions = 0;
  std::string hidden_act = "silu";
  nn::Activation activation = nn::Activation::kSilu;  // hidden_act
  double rms_norm_eps = 1e-6, initializer_range = 0.02, attention_dropout = 0;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool tied_head = false;      // lm_head shares the embedding
  int64_t sliding_window = 0;  // tokens a windowed layer attends to, including itself; 0: no window
  int64_t max_window_layers = 28;
  std::vector<bool> windowed;  // per layer
  std::vector<bool> rotated;   // per layer: its queries and keys; empty: of all layers
  std::vector<int64_t> bos, eos, pad;
  bool rope_by_layer = false;  // windowed layers have rotary positions of their own
  nn::RopeByLayer rope;        // `full` for all layers unless rope_by_layer

  // Gemma's:
  int64_t query_pre_attn_scalar = 0;                  // scores are divided by its root; 0: head_dim
  double attention_soft_cap = 0, logit_soft_cap = 0;  // 0: none
  double embedding_scale = 1;
  bool norms_add_one = false;  // norms scale by 1 + weight
  bool norms_outputs = false;  // what attention and the MLP return is normalized too

  /// Initialization of linear layers and embeddings.
  nn::Init init() const { return {nn::Init::kNormal, initializer_range}; }
  bool classifies() const { return task == Task::kSequenceClassification; }
  std::string class_name() const {
    return dialect.prefix + (classifies() ? dialect.text + "ForSequenceClassification" : "ForCausalLM");
  }
  bool rotates(int64_t layer) const { return rotated.empty() || rotated[layer]; }
  double attention_scale() const {
    return 1 / std::sqrt(static_cast<double>(query_pre_attn_scalar > 0 ? query_pre_attn_scalar : head_dim));
  }
  /// Maximum tokens per sample.
  int64_t reach() const { return rope_by_layer ? max_positions : rope.full.reach(); }
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
Config parse_config(const BuildRequest& request, const Dialect& dialect);

/// config.json as transformers 5 writes it; older versions are not supported.
std::string config_json(const Config& config);

// The parts that families with other keys (Gemma) share.

/// Reads the numbers that every family has by the same key, over the defaults in `config`.
void read_common(nn::ConfigReader& reader, Config& config);
/// Reports heads that can't be grouped or rotated.
void check_heads(nn::ConfigReader& reader, const Config& config);
/// The keys of config.json that every family has.
nlohmann::json common_json(const Config& config);
/// The value of `layer_types`.
nlohmann::json layer_types(const Config& config);

}  // namespace trainer::models::llama
