#include "engine/gguf/family.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"

namespace trainer::gguf {
namespace {

using Names = Family::Names;

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      {.model_type = "llama", .architecture = "llama", .pairs_rotated = true, .biases = true},
      {.model_type = "mistral", .architecture = "llama", .pairs_rotated = true},
      {.model_type = "qwen2", .architecture = "qwen2", .biases = true},
      {.model_type = "qwen3", .architecture = "qwen3"},
      {.model_type = "gemma", .architecture = "gemma", .norms_add_one = true, .tied_head = true},
      {.model_type = "gemma2",
       .architecture = "gemma2",
       .names = Names::kGemma,
       .norms_add_one = true,
       .tied_head = true},
      {.model_type = "gemma3_text", .architecture = "gemma3", .names = Names::kGemma, .norms_add_one = true},
      {.model_type = "gpt2", .architecture = "gpt2", .names = Names::kGpt2, .biases = true},
  };
  return table;
}

/// What a name without ".weight" or ".bias" becomes; the part before a block's number and the number are apart.
struct Dictionary {
  std::string blocks;                          // "model.layers."
  std::map<std::string, std::string> outside;  // of all blocks
  std::map<std::string, std::string> inside;   // a block
};

Dictionary llama_names() {
  return {"model.layers.",
          {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}},
          {{"input_layernorm", "attn_norm"},
           {"self_attn.q_proj", "attn_q"},
           {"self_attn.k_proj", "attn_k"},
           {"self_attn.v_proj", "attn_v"},
           {"self_attn.o_proj", "attn_output"},
           {"self_attn.q_norm", "attn_q_norm"},
           {"self_attn.k_norm", "attn_k_norm"},
           {"post_attention_layernorm", "ffn_norm"},
           {"mlp.gate_proj", "ffn_gate"},
           {"mlp.up_proj", "ffn_up"},
           {"mlp.down_proj", "ffn_down"}}};
}

/// Gemma 2 and 3 also normalize what attention and MLP return.
Dictionary gemma_names() {
  Dictionary names = llama_names();
  names.inside["post_attention_layernorm"] = "post_attention_norm";
  names.inside["pre_feedforward_layernorm"] = "ffn_norm";
  names.inside["post_feedforward_layernorm"] = "post_ffw_norm";
  return names;
}

Dictionary gpt2_names() {
  return {"transformer.h.",
          {{"transformer.wte", "token_embd"},
           {"transformer.wpe", "position_embd"},
           {"transformer.ln_f", "output_norm"},
           {"lm_head", "output"}},
          {{"ln_1", "attn_norm"},
           {"attn.c_attn", "attn_qkv"},
           {"attn.c_proj", "attn_output"},
           {"ln_2", "ffn_norm"},
           {"mlp.c_fc", "ffn_up"},
           {"mlp.c_proj", "ffn_down"}}};
}

const Dictionary& dictionary_of(const Family& family) {
  static const std::map<Names, Dictionary> all{
      {Names::kLlama, llama_names()}, {Names::kGemma, gemma_names()}, {Names::kGpt2, gpt2_names()}};
  return all.at(family.names);
}

/// The name without its last part, which `ending` becomes: "" or ".weight" or ".bias".
std::string stem_of(const std::string& name, std::string& ending) {
  for (const char* const known : {".weight", ".bias"})
    if (name.ends_with(known)) {
      ending = known;
      return name.substr(0, name.size() - ending.size());
    }
  return name;
}

/// "" when there is no place for it.
std::string translated(const Dictionary& dictionary, const std::string& stem) {
  const auto outside = dictionary.outside.find(stem);
  if (outside != dictionary.outside.end()) return outside->second;
  if (!stem.starts_with(dictionary.blocks)) return "";
  const size_t dot = stem.find('.', dictionary.blocks.size());
  if (dot == std::string::npos) return "";
  const auto inside = dictionary.inside.find(stem.substr(dot + 1));
  if (inside == dictionary.inside.end()) return "";
  return "blk." + stem.substr(dictionary.blocks.size(), dot - dictionary.blocks.size()) + "." + inside->second;
}

}  // namespace

const Family& family_of(const models::Model& model) {
  const auto config = bounded_json(model.config_json());
  const std::string type = config.value("model_type", "");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (family.model_type == type && model.task() == models::Task::kCausalLm) return family;
    known.push_back(family.model_type);
  }
  throw ConfigError(
      "a {} can't be exported to GGUF: supported are causal language models of the types {}.\n  Export it with "
      "--format huggingface.",
      model.class_name(), fmt::join(known, ", "));
}

std::string tensor_name(const Family& family, const std::string& name) {
  std::string ending;
  const std::string translation = translated(dictionary_of(family), stem_of(name, ending));
  const bool refused =
      translation.empty() || (family.tied_head && translation == "output") || (ending == ".bias" && !family.biases);
  if (!refused) return translation + ending;
  const char* const why = translation != "output" ? "its architecture there has no such weight"
                                                  : "there, its output head is always the embedding";
  throw ConfigError(
      "{} can't be exported to GGUF: llama.cpp has no place for it in a model of the type {}; {}.\n  Export with "
      "--format huggingface.",
      name, family.model_type, why);
}

at::Tensor rows_for_rope(const Family& family, const nlohmann::json& config, const std::string& name,
                         const at::Tensor& values) {
  const bool query = name.find(".self_attn.q_proj.") != std::string::npos;
  const bool key = name.find(".self_attn.k_proj.") != std::string::npos;
  if (!family.pairs_rotated || !(query || key)) return values;
  const int64_t heads = config.at(query ? "num_attention_heads" : "num_key_value_heads").get<int64_t>();
  std::vector<int64_t> halves{heads, 2, values.size(0) / heads / 2};  // value i turns with value i + head_dim / 2
  for (int64_t i = 1; i < values.dim(); ++i) halves.push_back(values.size(i));
  return values.reshape(halves).transpose(1, 2).reshape(values.sizes());
}

}  // namespace trainer::gguf
