#include "engine/adapters/model_facts.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

using nlohmann::json;

int64_t first_of(const json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (config.contains(key) && config[key].is_number_integer()) return config[key];
  throw ConfigError("lora.peft_type: prompts need the key {} in the model's config.json", *keys.begin());
}

}  // namespace

std::string task_type(models::Task task) {
  switch (task) {
    case models::Task::kCausalLm:
      return "CAUSAL_LM";
    case models::Task::kSeq2SeqLm:
      return "SEQ_2_SEQ_LM";
    case models::Task::kSequenceClassification:
      return "SEQ_CLS";
    case models::Task::kImageClassification:
      return "";
  }
  return "";
}

models::Model::Ia3Layers default_ia3_layers(const models::Model& model) {
  models::Model::Ia3Layers layers = model.default_ia3_layers();
  if (layers.targets.empty())
    throw ConfigError("lora.target_modules is required: PEFT has no default IA3 layers for model_type '{}'",
                      bounded_json(model.config_json()).value("model_type", ""));
  return layers;
}

PromptSizes prompt_sizes(const models::Model& model) {
  const json config = bounded_json(model.config_json());
  PromptSizes sizes;
  sizes.width = first_of(config, {"hidden_size", "n_embd", "d_model"});
  sizes.heads = first_of(config, {"num_attention_heads", "n_head", "num_heads"});
  sizes.layers = first_of(config, {"num_hidden_layers", "n_layer", "num_layers"});
  sizes.submodules = model.task() == models::Task::kSeq2SeqLm ? 2 : 1;
  return sizes;
}

json prompt_json(int64_t tokens, const PromptSizes& sizes) {
  return {{"num_virtual_tokens", tokens},
          {"token_dim", sizes.width},
          {"num_transformer_submodules", sizes.submodules},
          {"num_attention_heads", sizes.heads},
          {"num_layers", sizes.layers}};
}

PromptSizes prefix_sizes(const models::Model& model) {
  const json config = bounded_json(model.config_json());
  PromptSizes sizes = prompt_sizes(model);
  const auto has = [&](const char* key) { return config.contains(key) && config[key].is_number_integer(); };
  const int64_t head =
      has("head_dim") || has("d_kv") ? first_of(config, {"head_dim", "d_kv"}) : sizes.width / sizes.heads;
  if (has("num_key_value_heads")) sizes.heads = config["num_key_value_heads"];
  sizes.width = sizes.heads * head;
  if (has("num_decoder_layers")) sizes.layers = std::max<int64_t>(sizes.layers, config["num_decoder_layers"]);
  return sizes;
}

}  // namespace trainer::adapters
