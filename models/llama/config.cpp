#include "models/llama/config.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/class_names.h"

namespace trainer::models::llama {
namespace {

void read_heads(nn::ConfigReader& reader, Config& c) {
  reader.number("num_attention_heads", 1, c.heads);
  c.kv_heads = reader.is_null("num_key_value_heads") || c.dialect.kv_heads == 0 ? c.heads : c.dialect.kv_heads;
  reader.number("num_key_value_heads", 1, c.kv_heads);
  c.head_dim = c.dialect.head_dim;
  if (!reader.has("head_dim") && c.head_dim == 0) {
    c.head_dim = c.hidden_size / c.heads;
    if (c.hidden_size % c.heads != 0)
      reader.problem(fmt::format("hidden_size must be a multiple of num_attention_heads; they are {} and {}",
                                 c.hidden_size, c.heads));
  }
  reader.number("head_dim", 2, c.head_dim);
  check_heads(reader, c);
}

void read_biases(nn::ConfigReader& reader, Config& c) {
  using enum Dialect::Bias;
  c.qkv_bias = c.dialect.attention_bias == kAlwaysQkv;
  if (c.dialect.attention_bias == kByKey) reader.flag("attention_bias", c.qkv_bias), c.output_bias = c.qkv_bias;
  if (c.dialect.mlp_bias_key) reader.flag("mlp_bias", c.mlp_bias);
}

/// Which layers rotate queries and keys.
void read_rotated(nn::ConfigReader& reader, Config& c) {
  if (c.dialect.window != Dialect::Window::kWithoutRope) return;
  constexpr const char* kKey = "no_rope_layers";  // despite its name, of 1 for layers with rotary positions
  int64_t interval = 4;
  reader.number("no_rope_layer_interval", 1, interval);
  std::vector<int64_t> rotated;
  for (int64_t i = 0; i < c.layers; ++i) rotated.push_back((i + 1) % interval == 0 ? 0 : 1);
  if (reader.has(kKey)) reader.tokens(kKey, rotated);
  const bool known = std::all_of(rotated.begin(), rotated.end(), [](int64_t is) { return is == 0 || is == 1; });
  if (!known || static_cast<int64_t>(rotated.size()) < c.layers)
    return reader.wrong(kKey, fmt::format("{} times 0 or 1", c.layers));
  c.rotated.assign(rotated.begin(), rotated.begin() + c.layers);
}

/// Which layers use sliding-window attention over the last `sliding_window` tokens.
void read_windows(nn::ConfigReader& reader, Config& c) {
  using enum Dialect::Window;
  c.windowed.assign(c.layers, false);
  if (c.dialect.window == kNone) return;
  const bool by_layer = c.dialect.window != kAllLayers, without_rope = c.dialect.window == kWithoutRope;
  bool used = !by_layer;
  if (by_layer) reader.flag("use_sliding_window", used);
  if (c.dialect.window == kByLayer) reader.number("max_window_layers", 0, c.max_window_layers);
  c.sliding_window = without_rope || reader.is_null("sliding_window") ? 0 : 4096;
  reader.number("sliding_window", 1, c.sliding_window);
  if (!used) c.sliding_window = 0;
  for (int64_t i = 0; i < c.layers; ++i)
    c.windowed[i] = c.sliding_window > 0 && (without_rope ? !c.rotates(i) : !by_layer || i >= c.max_window_layers);
  std::vector<std::string> kinds;
  if (by_layer) reader.texts("layer_types", kinds);
  if (kinds.empty()) return;
  const bool known = std::all_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
    return kind == nn::kFullLayers || (kind == nn::kSlidingLayers && c.sliding_window > 0);
  });
  if (!known || static_cast<int64_t>(kinds.size()) != c.layers)
    return reader.wrong("layer_types",
                        fmt::format("{} times '{}', or '{}' if use_sliding_window is true and sliding_window a number",
                                    c.layers, nn::kFullLayers, nn::kSlidingLayers));
  for (int64_t i = 0; i < c.layers; ++i) c.windowed[i] = kinds[i] == nn::kSlidingLayers;
}

void read_tokens(nn::ConfigReader& reader, Config& c) {
  c.bos = c.dialect.bos, c.eos = c.dialect.eos, c.pad = c.dialect.pad;
  reader.tokens("bos_token_id", c.bos);
  reader.tokens("eos_token_id", c.eos);
  if (reader.has("pad_token_id") && reader.value("pad_token_id") == -1)  // none, in the oldest LLaMA folders
    c.pad.clear();
  else
    reader.tokens("pad_token_id", c.pad);
}

/// A missing key takes transformers' default, which differs by family.
void read_sizes(nn::ConfigReader& reader, Config& c) {
  c.vocab_size = c.dialect.vocab_size;
  c.hidden_size = c.dialect.hidden_size;
  c.layers = c.dialect.layers;
  c.heads = c.dialect.heads;
  c.intermediate_size = c.dialect.intermediate_size;
  c.max_positions = c.dialect.max_positions;
  read_common(reader, c);
}

void add_dialect(const Config& c, nlohmann::json& json) {
  if (c.dialect.attention_bias == Dialect::Bias::kByKey) json["attention_bias"] = c.qkv_bias;
  if (c.dialect.mlp_bias_key) json["mlp_bias"] = c.mlp_bias;
  if (c.dialect.window == Dialect::Window::kNone) return;
  json["sliding_window"] = c.sliding_window > 0 ? nlohmann::json(c.sliding_window) : nlohmann::json();
  if (c.dialect.window == Dialect::Window::kAllLayers) return;
  json["use_sliding_window"] = c.sliding_window > 0;
  json["layer_types"] = layer_types(c);
  if (c.dialect.window == Dialect::Window::kByLayer) {
    json["max_window_layers"] = c.max_window_layers;
    return;
  }
  json["no_rope_layers"] = nlohmann::json::array();
  for (const bool rotated : c.rotated) json["no_rope_layers"].push_back(rotated ? 1 : 0);
}

}  // namespace

void read_common(nn::ConfigReader& reader, Config& c) {
  reader.number("vocab_size", 1, c.vocab_size);
  reader.number("hidden_size", 1, c.hidden_size);
  reader.number("intermediate_size", 1, c.intermediate_size);
  reader.number("num_hidden_layers", 1, c.layers);
  reader.number("max_position_embeddings", 1, c.max_positions);
  reader.number("rms_norm_eps", 0.0, 1.0, c.rms_norm_eps);
  reader.number("initializer_range", 0.0, 1e6, c.initializer_range);
  reader.number("attention_dropout", 0.0, 0.99, c.attention_dropout);
}

void check_heads(nn::ConfigReader& reader, const Config& c) {
  if (c.heads % c.kv_heads != 0)
    reader.problem(fmt::format("num_attention_heads must be a multiple of num_key_value_heads; they are {} and {}",
                               c.heads, c.kv_heads));
  if (c.head_dim % 2 != 0) reader.problem(fmt::format("head_dim must be even; is {}", c.head_dim));
}

Config parse_config(const BuildRequest& request, const Dialect& dialect) {
  nn::ConfigReader reader(request.config_json, request.origin, dialect.name, request.strict);
  Config c;
  c.dialect = dialect;
  c.task = request.task;
  read_sizes(reader, c);
  read_heads(reader, c);
  read_biases(reader, c);
  read_rotated(reader, c);
  read_windows(reader, c);
  read_tokens(reader, c);
  reader.activation("hidden_act", c.hidden_act, c.activation);
  c.rope.full = nn::read_rope(reader, c.max_positions, c.head_dim, c.dialect.rope_theta);
  c.tied_head = dialect.tied_head;
  reader.flag("tie_word_embeddings", c.tied_head);
  c.tied_head = c.tied_head && !request.head_is_separate;
  if (c.classifies()) c.labels = read_class_names(reader, request);
  reader.skip({"pretraining_tp"});
  reader.skip_common();
  reader.finish();
  return c;
}

nlohmann::json layer_types(const Config& c) {
  nlohmann::json types = nlohmann::json::array();
  for (const bool windowed : c.windowed) types.push_back(windowed ? nn::kSlidingLayers : nn::kFullLayers);
  return types;
}

nlohmann::json common_json(const Config& c) {
  nlohmann::json json = {{"architectures", {c.class_name()}},
                         {"model_type", c.dialect.model_type},
                         {"vocab_size", c.vocab_size},
                         {"hidden_size", c.hidden_size},
                         {"intermediate_size", c.intermediate_size},
                         {"num_hidden_layers", c.layers},
                         {"num_attention_heads", c.heads},
                         {"num_key_value_heads", c.kv_heads},
                         {"head_dim", c.head_dim},
                         {"hidden_act", c.hidden_act},
                         {"max_position_embeddings", c.max_positions},
                         {"initializer_range", c.initializer_range},
                         {"rms_norm_eps", c.rms_norm_eps},
                         {"attention_dropout", c.attention_dropout},
                         {"rope_parameters", c.rope_by_layer ? nn::rope_json(c.rope) : nn::rope_json(c.rope.full)},
                         {"tie_word_embeddings", c.tied_head},
                         {"use_cache", true},
                         {"bos_token_id", nn::tokens_json(c.bos)},
                         {"eos_token_id", nn::tokens_json(c.eos)},
                         {"pad_token_id", nn::tokens_json(c.pad)},
                         {"dtype", "float32"}};
  write_class_names(json, c.labels);
  return json;
}

std::string config_json(const Config& c) {
  nlohmann::json json = common_json(c);
  add_dialect(c, json);
  return json.dump(2) + "\n";
}

}  // namespace trainer::models::llama
