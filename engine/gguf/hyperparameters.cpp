#include "engine/gguf/hyperparameters.h"

#include <cmath>
#include <numbers>
#include <set>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace trainer::gguf {
namespace {

using nlohmann::json;

/// Metadata of an architecture.
class Keys {
 public:
  explicit Keys(const std::string& architecture) : prefix_(architecture + ".") {}
  void add(const std::string& key, Value value) { metadata_.emplace_back(prefix_ + key, std::move(value)); }
  void count(const std::string& key, const json& number) { add(key, number.get<uint32_t>()); }
  void real(const std::string& key, const json& number) { add(key, number.get<float>()); }
  /// Nothing for a missing value.
  void real_if(const std::string& key, const json& object, const char* name) {
    if (object.contains(name) && object[name].is_number()) real(key, object[name]);
  }
  Metadata take() { return std::move(metadata_); }

 private:
  std::string prefix_;
  Metadata metadata_;
};

/// `rope_parameters` of the layers with full attention.
const json& rope_of(const json& config) {
  const json& rope = config.at("rope_parameters");
  return rope.contains("full_attention") ? rope["full_attention"] : rope;
}

std::string rope_type(const json& rope) {
  return rope.value("rope_type", "default");
}

void add_rope(const json& config, Keys& keys) {
  const json& rope = rope_of(config);
  keys.real("rope.freq_base", rope.at("rope_theta"));
  const json& all = config.at("rope_parameters");
  if (all.contains("sliding_attention")) keys.real("rope.freq_base_swa", all["sliding_attention"].at("rope_theta"));
  const std::string type = rope_type(rope);
  if (type != "linear" && type != "yarn") return;
  keys.add("rope.scaling.type", type);
  keys.real("rope.scaling.factor", rope.at("factor"));
  if (type != "yarn") return;
  keys.count("rope.scaling.original_context_length", rope.at("original_max_position_embeddings"));
  keys.real_if("rope.scaling.yarn_attn_factor", rope, "attention_factor");
  keys.real_if("rope.scaling.yarn_beta_fast", rope, "beta_fast");
  keys.real_if("rope.scaling.yarn_beta_slow", rope, "beta_slow");
}

void add_llama(const Family& family, const json& config, Keys& keys) {
  keys.count("block_count", config.at("num_hidden_layers"));
  keys.count("context_length", config.at("max_position_embeddings"));
  keys.count("embedding_length", config.at("hidden_size"));
  keys.count("feed_forward_length", config.at("intermediate_size"));
  keys.count("attention.head_count", config.at("num_attention_heads"));
  keys.count("attention.head_count_kv", config.at("num_key_value_heads"));
  add_rope(config, keys);
  keys.real("attention.layer_norm_rms_epsilon", config.at("rms_norm_eps"));
  keys.count("attention.key_length", config.at("head_dim"));
  keys.count("attention.value_length", config.at("head_dim"));
  keys.real_if("attn_logit_softcapping", config, "attn_logit_softcapping");
  keys.real_if("final_logit_softcapping", config, "final_logit_softcapping");
  if (family.names == Family::Names::kGemma && config.at("sliding_window").is_number())
    keys.count("attention.sliding_window", config["sliding_window"]);
  if (family.architecture != "llama") return;
  keys.count("vocab_size", config.at("vocab_size"));
  keys.count("rope.dimension_count", config.at("head_dim"));
}

void add_gpt2(const json& config, Keys& keys) {
  const int64_t inner = config.at("n_inner").is_number() ? config["n_inner"].get<int64_t>() : 0;
  keys.count("block_count", config.at("n_layer"));
  keys.count("context_length", config.at("n_positions"));
  keys.count("embedding_length", config.at("n_embd"));
  keys.count("feed_forward_length", inner > 0 ? inner : 4 * config["n_embd"].get<int64_t>());
  keys.count("attention.head_count", config.at("n_head"));
  keys.real("attention.layer_norm_epsilon", config.at("layer_norm_epsilon"));
}

/// What llama.cpp fixes for an architecture, and `config` has otherwise.
class Differences {
 public:
  Differences(const Family& family, const json& config) : family_(family), config_(config) {}

  void activation(const char* key, const std::set<std::string>& fixed) {
    const std::string name = config_.value(key, "");
    if (fixed.count(name) == 0) add(key, "'" + name + "'", "'" + *fixed.begin() + "'");
  }
  void rope() {
    static const std::set<std::string> known{"default", "linear", "yarn", "llama3"};
    const json& rope = rope_of(config_);
    const std::string type = rope_type(rope);
    if (known.count(type) == 0) add("rope_parameters.rope_type", type, "default, linear, yarn or llama3");
    if (type == "llama3" && family_.architecture != "llama") add("rope_parameters.rope_type", type, "not llama3");
    for (const char* const key : {"mscale", "mscale_all_dim"})
      if (rope.contains(key) && rope[key].is_number())
        add(std::string("rope_parameters.") + key, rope[key].dump(), "no value");
  }
  /// llama.cpp knows sliding windows of Gemma 2 and 3 only, in all layers but every second or sixth.
  void windows() {
    const json& window = config_.contains("sliding_window") ? config_["sliding_window"] : json();
    if (!window.is_number()) return;
    const json types = config_.value("layer_types", json::array());
    const size_t period = family_.architecture == "gemma2" ? 2 : family_.architecture == "gemma3" ? 6 : 1;
    bool same = period > 1 || config_.at("max_position_embeddings") <= window;
    for (size_t i = 0; i < types.size(); ++i) same &= (types[i] == "sliding_attention") == ((i + 1) % period != 0);
    if (same) return;
    if (family_.architecture == "gemma3")
      return add("layer_types", types.dump(), "full attention in every sixth layer");
    warnings_.push_back(fmt::format(
        "sliding_window is {}, which llama.cpp does not apply to these layers of {}: longer texts give other results",
        window.dump(), family_.architecture));
  }
  /// Only the largest models of a generation divide scores by another root than that of head_dim.
  void attention_scale() {
    const int64_t scale = config_.value("query_pre_attn_scalar", int64_t{0}), head = config_.at("head_dim");
    const int64_t layers = config_.at("num_hidden_layers");
    const bool largest = layers == (family_.architecture == "gemma2" ? 46 : 62);
    const int64_t fixed =
        largest ? config_.at("hidden_size").get<int64_t>() / config_.at("num_attention_heads").get<int64_t>() : head;
    if (scale != 0 && scale != fixed) add("query_pre_attn_scalar", std::to_string(scale), std::to_string(fixed));
  }
  void flag(const char* key, bool fixed) {
    if (config_.value(key, fixed) != fixed) add(key, fixed ? "false" : "true", fixed ? "true" : "false");
  }
  std::vector<std::string> finish() const {
    if (text_.empty()) return warnings_;
    throw ConfigError(
        "llama.cpp would compute something else than this {} model:{}\n  Export it with --format huggingface.",
        family_.model_type, text_);
  }

 private:
  void add(const std::string& key, const std::string& value, const std::string& fixed) {
    text_ += fmt::format("\n  {} is {}; llama.cpp's {} has {}", key, value, family_.architecture, fixed);
  }

  const Family& family_;
  const json& config_;
  std::string text_;
  std::vector<std::string> warnings_;
};

}  // namespace

Metadata hyperparameters(const Family& family, const json& config) {
  Keys keys(family.architecture);
  family.names == Family::Names::kGpt2 ? add_gpt2(config, keys) : add_llama(family, config, keys);
  return keys.take();
}

std::optional<at::Tensor> rope_factors(const json& config) {
  if (!config.contains("rope_parameters") || rope_type(rope_of(config)) != "llama3") return std::nullopt;
  const json& rope = rope_of(config);
  const auto dimensions = config.at("head_dim").get<int64_t>();
  const auto theta = rope.at("rope_theta").get<double>(), factor = rope.at("factor").get<double>(),
             low = rope.at("low_freq_factor").get<double>(), high = rope.at("high_freq_factor").get<double>(),
             original = rope.at("original_max_position_embeddings").get<double>();
  at::Tensor factors = at::empty({dimensions / 2}, at::kFloat);
  for (int64_t i = 0; i < dimensions / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(dimensions));
    const double smooth = (original / wavelength - low) / (high - low);
    const double divisor = wavelength < original / high  ? 1
                           : wavelength > original / low ? factor
                                                         : 1 / ((1 - smooth) / factor + smooth);
    factors.mutable_data_ptr<float>()[i] = static_cast<float>(divisor);
  }
  return factors;
}

std::vector<std::string> check_supported(const Family& family, const json& config) {
  Differences differences(family, config);
  if (family.names == Family::Names::kGpt2) {
    differences.activation("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
    differences.flag("scale_attn_weights", true);
    differences.flag("scale_attn_by_inverse_layer_idx", false);
    return differences.finish();
  }
  if (family.architecture == "gemma2" || family.architecture == "gemma3")
    differences.activation("hidden_activation", {"gelu_pytorch_tanh", "gelu_new"});
  else if (family.architecture == "gemma")
    differences.activation("hidden_act",
                           {"gelu_pytorch_tanh", "gelu_new", "gelu"});  // published as gelu, trained as tanh
  else
    differences.activation("hidden_act", {"silu"});
  differences.rope();
  differences.windows();
  differences.attention_scale();
  return differences.finish();
}

}  // namespace trainer::gguf
