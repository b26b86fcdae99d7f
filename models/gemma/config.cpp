#include "models/gemma/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/class_names.h"

namespace trainer::models::gemma {
namespace {

using enum Generation;

constexpr const char* kFullLayer = "full_attention";
constexpr const char* kSlidingLayer = "sliding_attention";

const char* model_type(Generation generation) {
  return generation == k1 ? "gemma" : generation == k2 ? "gemma2" : "gemma3_text";
}

/// The published sizes that transformers takes for missing keys.
Config defaults_of(Generation generation) {
  Config c;
  c.generation = generation;
  if (generation == k1) c.hidden_size = 3072, c.intermediate_size = 24576, c.layers = 28, c.heads = c.kv_heads = 16;
  if (generation == k2) c.attention_soft_cap = 50, c.logit_soft_cap = 30;
  if (generation == k3) c.vocab_size = 262208, c.max_positions = 131072;
  return c;
}

void read_sizes(nn::ConfigReader& reader, Config& c) {
  for (auto [key, size] :
       {std::pair{"vocab_size", &c.vocab_size}, std::pair{"hidden_size", &c.hidden_size},
        std::pair{"intermediate_size", &c.intermediate_size}, std::pair{"num_hidden_layers", &c.layers},
        std::pair{"num_attention_heads", &c.heads}, std::pair{"num_key_value_heads", &c.kv_heads},
        std::pair{"head_dim", &c.head_dim}, std::pair{"max_position_embeddings", &c.max_positions}})
    reader.number(key, 1, *size);
  reader.number("rms_norm_eps", 0.0, 1.0, c.rms_norm_eps);
  reader.number("initializer_range", 0.0, 1e6, c.initializer_range);
  if (c.heads % c.kv_heads != 0)
    reader.problem(fmt::format("num_attention_heads must be a multiple of num_key_value_heads; they are {} and {}",
                               c.heads, c.kv_heads));
  if (c.head_dim % 2 != 0) reader.problem(fmt::format("head_dim must be even; is {}", c.head_dim));
}

/// A key that is null for no soft cap.
void read_soft_cap(nn::ConfigReader& reader, const char* key, double& cap) {
  if (reader.is_null(key)) cap = 0;
  reader.number(key, 1e-6, 1e6, cap);
}

void read_attention(nn::ConfigReader& reader, Config& c) {
  reader.flag("attention_bias", c.attention_bias);
  reader.number("attention_dropout", 0.0, 0.99, c.attention_dropout);
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
  const auto known = [](const std::string& kind) { return kind == kFullLayer || kind == kSlidingLayer; };
  if (!kinds.empty() &&
      (static_cast<int64_t>(kinds.size()) != c.layers || !std::all_of(kinds.begin(), kinds.end(), known)))
    return reader.wrong("layer_types", fmt::format("{} times '{}' or '{}'", c.layers, kFullLayer, kSlidingLayer));
  for (size_t i = 0; i < kinds.size(); ++i) c.windowed[i] = kinds[i] == kSlidingLayer;
  if (c.sliding_window == 0 && std::find(c.windowed.begin(), c.windowed.end(), true) != c.windowed.end())
    reader.wrong("sliding_window", fmt::format("a number, which layers of type '{}' need", kSlidingLayer));
}

void read_rope_and_activation(nn::ConfigReader& reader, Config& c) {
  const bool first = c.generation == k1;
  reader.activation(first ? "hidden_act" : "hidden_activation", c.activation_name, c.activation);
  reader.skip({first ? "hidden_activation" : "hidden_act"});  // transformers doesn't read it
  if (c.rope_by_layer())
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
  json["layer_types"] = nlohmann::json::array();
  for (const bool windowed : c.windowed) json["layer_types"].push_back(windowed ? kSlidingLayer : kFullLayer);
}

}  // namespace

double Config::attention_scale() const {
  return 1 / std::sqrt(static_cast<double>(generation == k1 ? head_dim : query_pre_attn_scalar));
}

std::string Config::prefix() const {
  return generation == k1 ? "Gemma" : generation == k2 ? "Gemma2" : "Gemma3";
}

std::string Config::class_name() const {
  if (!classifies()) return prefix() + "ForCausalLM";
  return prefix() + (generation == k3 ? "TextForSequenceClassification" : "ForSequenceClassification");
}

Config parse_config(const BuildRequest& request, Generation generation) {
  Config c = defaults_of(generation);
  nn::ConfigReader reader(request.config_json, request.origin, c.prefix(), request.strict);
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
  nlohmann::json json = {{"architectures", {c.class_name()}},
                         {"model_type", model_type(c.generation)},
                         {"vocab_size", c.vocab_size},
                         {"hidden_size", c.hidden_size},
                         {"intermediate_size", c.intermediate_size},
                         {"num_hidden_layers", c.layers},
                         {"num_attention_heads", c.heads},
                         {"num_key_value_heads", c.kv_heads},
                         {"head_dim", c.head_dim},
                         {c.generation == k1 ? "hidden_act" : "hidden_activation", c.activation_name},
                         {"max_position_embeddings", c.max_positions},
                         {"initializer_range", c.initializer_range},
                         {"rms_norm_eps", c.rms_norm_eps},
                         {"attention_bias", c.attention_bias},
                         {"attention_dropout", c.attention_dropout},
                         {"rope_parameters", c.rope_by_layer() ? nn::rope_json(c.rope) : nn::rope_json(c.rope.full)},
                         {"tie_word_embeddings", c.tied_head},
                         {"use_cache", true},
                         {"bos_token_id", nn::tokens_json(c.bos)},
                         {"eos_token_id", nn::tokens_json(c.eos)},
                         {"pad_token_id", nn::tokens_json(c.pad)},
                         {"dtype", "float32"}};
  if (c.generation != k1) add_later_keys(c, json);
  write_class_names(json, c.labels);
  return json.dump(2) + "\n";
}

}  // namespace trainer::models::gemma
