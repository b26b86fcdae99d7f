#include "models/gemma/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/class_names.h"

namespace trainer::models::gemma {
namespace {

using enum Generation;

llama::Dialect dialect_of(Generation generation) {
  const std::string prefix = generation == k1 ? "Gemma" : generation == k2 ? "Gemma2" : "Gemma3";
  return {.model_type = generation == k1   ? "gemma"
                        : generation == k2 ? "gemma2"
                                           : "gemma3_text",
          .name = prefix,
          .prefix = prefix,
          .text = generation == k3 ? "Text" : "",
          .qk_norm = generation == k3,
          .ia3_projection = "q_proj"};
}

/// What Gemma does otherwise than LLaMA, and the published sizes that transformers takes for missing keys.
Config defaults_of(Generation generation) {
  Config c;
  c.generation = generation;
  c.dialect = dialect_of(generation);
  c.vocab_size = 256000, c.hidden_size = 2304, c.intermediate_size = 9216, c.layers = 26, c.max_positions = 8192;
  c.heads = 8, c.kv_heads = 4, c.head_dim = 256;
  c.hidden_act = "gelu_pytorch_tanh", c.activation = nn::Activation::kGeluNew;
  c.tied_head = true;
  c.bos = {2}, c.eos = {1}, c.pad = {0};
  c.norms_add_one = true;
  c.norms_outputs = generation != k1;
  c.rope_by_layer = generation == k3;
  if (generation == k1) c.hidden_size = 3072, c.intermediate_size = 24576, c.layers = 28, c.heads = c.kv_heads = 16;
  if (generation != k1) c.query_pre_attn_scalar = 256;
  if (generation == k2) c.attention_soft_cap = 50, c.logit_soft_cap = 30;
  if (generation == k3) c.vocab_size = 262208, c.max_positions = 131072;
  return c;
}

void read_sizes(nn::ConfigReader& reader, Config& c) {
  llama::read_common(reader, c);
  reader.number("num_attention_heads", 1, c.heads);
  reader.number("num_key_value_heads", 1, c.kv_heads);
  reader.number("head_dim", 1, c.head_dim);
  llama::check_heads(reader, c);
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
}

/// A key that is null for no soft cap.
void read_soft_cap(nn::ConfigReader& reader, const char* key, double& cap) {
  if (reader.is_null(key)) cap = 0;
  reader.number(key, 1e-6, 1e6, cap);
}

void read_attention(nn::ConfigReader& reader, Config& c) {
  reader.flag("attention_bias", c.qkv_bias), c.output_bias = c.qkv_bias;
  bool bidirectional = false;
  reader.flag("use_bidirectional_attention", bidirectional);
  if (bidirectional) reader.wrong("use_bidirectional_attention", "false: each token attends to those before it");
  if (c.generation == k1) return;
  reader.number("query_pre_attn_scalar", 1, c.query_pre_attn_scalar);
  read_soft_cap(reader, "attn_logit_softcapping", c.attention_soft_cap);
  read_soft_cap(reader, "final_logit_softcapping", c.logit_soft_cap);
  if (c.generation == k3 && c.attention_soft_cap > 0)
    reader.wrong("attn_logit_softcapping", "null: transformers' Gemma 3 ignores it");
}

/// Which layers use sliding-window attention. Missing `layer_types`: all but every second, or sixth, layer.
void read_layers(nn::ConfigReader& reader, Config& c) {
  c.windowed.assign(c.layers, false);
  if (c.generation == k1) return;
  int64_t pattern = c.generation == k2 ? 2 : 6;
  if (c.generation == k3) reader.number("sliding_window_pattern", 1, pattern);
  for (int64_t i = 0; i < c.layers; ++i) c.windowed[i] = (i + 1) % pattern != 0;
  c.sliding_window = reader.is_null("sliding_window") ? 0 : 4096;
  reader.number("sliding_window", 1, c.sliding_window);
  std::vector<std::string> kinds;
  reader.texts("layer_types", kinds);
  const auto known = [](const std::string& kind) { return kind == nn::kFullLayers || kind == nn::kSlidingLayers; };
  if (!kinds.empty() &&
      (static_cast<int64_t>(kinds.size()) != c.layers || !std::all_of(kinds.begin(), kinds.end(), known)))
    return reader.wrong("layer_types",
                        fmt::format("{} times '{}' or '{}'", c.layers, nn::kFullLayers, nn::kSlidingLayers));
  for (size_t i = 0; i < kinds.size(); ++i) c.windowed[i] = kinds[i] == nn::kSlidingLayers;
  if (c.sliding_window == 0 && std::find(c.windowed.begin(), c.windowed.end(), true) != c.windowed.end())
    reader.wrong("sliding_window", fmt::format("a number, which layers of type '{}' need", nn::kSlidingLayers));
}

void read_rope_and_activation(nn::ConfigReader& reader, Config& c) {
  const bool first = c.generation == k1;
  reader.activation(first ? "hidden_act" : "hidden_activation", c.hidden_act, c.activation);
  reader.skip({first ? "hidden_activation" : "hidden_act"});  // transformers doesn't read it
  if (c.rope_by_layer)
    c.rope = nn::read_rope_by_layer(reader, c.max_positions, c.head_dim);
  else
    c.rope.full = nn::read_rope(reader, c.max_positions, c.head_dim);
}

void add_later_keys(const Config& c, nlohmann::json& json) {
  const auto cap = [](double value) { return value > 0 ? nlohmann::json(value) : nlohmann::json(); };
  json["query_pre_attn_scalar"] = c.query_pre_attn_scalar;
  json["attn_logit_softcapping"] = cap(c.attention_soft_cap);
  json["final_logit_softcapping"] = cap(c.logit_soft_cap);
  json["sliding_window"] = c.sliding_window > 0 ? nlohmann::json(c.sliding_window) : nlohmann::json();
  json["layer_types"] = llama::layer_types(c);
  json["hidden_activation"] = c.hidden_act;
  json.erase("hidden_act");
}

}  // namespace

Config parse_config(const BuildRequest& request, Generation generation) {
  Config c = defaults_of(generation);
  nn::ConfigReader reader(request.config_json, request.origin, c.dialect.name, request.strict);
  c.task = request.task;
  read_sizes(reader, c);
  read_attention(reader, c);
  read_layers(reader, c);
  read_rope_and_activation(reader, c);
  reader.tokens("bos_token_id", c.bos);
  reader.tokens("eos_token_id", c.eos);
  reader.tokens("pad_token_id", c.pad);
  reader.flag("tie_word_embeddings", c.tied_head);
  c.tied_head = c.tied_head && !request.head_is_separate;
  if (c.classifies()) c.labels = read_class_names(reader, request);
  reader.skip({"cache_implementation", "_sliding_window_pattern"});
  reader.skip_common();
  reader.finish();
  return c;
}

std::string config_json(const Config& c) {
  nlohmann::json json = llama::common_json(c);
  json["attention_bias"] = c.qkv_bias;
  if (c.generation != k1) add_later_keys(c, json);
  return json.dump(2) + "\n";
}

}  // namespace trainer::models::gemma
