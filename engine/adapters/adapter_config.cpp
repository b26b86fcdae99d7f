#include "engine/adapters/adapter_config.h"

#include <nlohmann/json.hpp>

#include "engine/adapters/decomposition.h"
#include "engine/adapters/inject_lora.h"
#include "engine/adapters/model_facts.h"
#include "engine/config/names.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

using nlohmann::json;

template <class T>
json or_null(const std::vector<T>& values) {
  return values.empty() ? json(nullptr) : json(values);
}

json names_or_pattern(const config::NamesOrPattern& value) {
  return value.pattern.empty() ? or_null(value.names) : json(value.pattern);
}

/// Writes a whole number as an integer, the type that PEFT declares for alpha.
json number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return value == static_cast<double>(whole) ? json(whole) : json(value);
}

json init_json(const std::string& init) {
  if (init == "true" || init == "false") return init == "true";
  return init;
}

bool has_conv1d(models::Model& model) {
  bool found = false;
  model.visit([&](nn::Module& module) {
    const auto* linear = dynamic_cast<nn::Linear*>(&module);
    found = found || (linear != nullptr && linear->stored() == nn::Linear::Stored::kInOut);
  });
  return found;
}

json lora_json(const config::LoraConfig& o, models::Model& model) {
  json alphas = json::object();
  for (const auto& [pattern, alpha] : o.alpha_pattern) alphas[pattern] = number(alpha);
  return {{"r", o.r},
          {"lora_alpha", number(o.lora_alpha)},
          {"lora_dropout", o.lora_dropout},
          {"target_modules", names_or_pattern(o.target_modules)},
          {"exclude_modules", names_or_pattern(o.exclude_modules)},
          {"bias", config::name_of(o.bias)},
          {"use_rslora", o.use_rslora},
          {"use_dora", o.use_dora},
          {"fan_in_fan_out", has_conv1d(model)},
          {"init_lora_weights", init_json(o.init_lora_weights)},
          {"layers_to_transform", or_null(o.layers_to_transform)},
          {"layers_pattern", or_null(o.layers_pattern)},
          {"rank_pattern", o.rank_pattern},
          {"alpha_pattern", alphas}};
}

json ia3_json(const config::LoraConfig& o, models::Model& model) {
  return {
      {"target_modules", names_or_pattern(o.target_modules)},
      {"exclude_modules", names_or_pattern(o.exclude_modules)},
      {"feedforward_modules", o.feedforward_modules.empty() ? json::array() : names_or_pattern(o.feedforward_modules)},
      {"fan_in_fan_out", has_conv1d(model)},
      {"init_ia3_weights", o.init_ia3_weights}};
}

json prompt_json(const config::LoraConfig& o, models::Model& model, const std::string& base_model) {
  const bool prefix = o.peft_type == "PREFIX_TUNING";
  const PromptSizes sizes = prefix ? prefix_sizes(model) : prompt_sizes(model);
  json file = {{"num_virtual_tokens", o.num_virtual_tokens},
               {"token_dim", sizes.width},
               {"num_transformer_submodules", sizes.submodules},
               {"num_attention_heads", sizes.heads},
               {"num_layers", sizes.layers}};
  if (o.peft_type == "P_TUNING") {
    file["encoder_reparameterization_type"] = o.encoder_reparameterization_type;
    file["encoder_hidden_size"] = o.encoder_hidden_size > 0 ? o.encoder_hidden_size : sizes.width;
    file["encoder_num_layers"] = o.encoder_num_layers;
    file["encoder_dropout"] = o.encoder_dropout;
    return file;
  }
  if (prefix) {
    file["encoder_hidden_size"] = o.encoder_hidden_size > 0 ? o.encoder_hidden_size : sizes.width;
    file["prefix_projection"] = o.prefix_projection;
    file["init_weights"] = nullptr;
    return file;
  }
  const bool text = o.prompt_tuning_init == "TEXT";
  file["prompt_tuning_init"] = o.prompt_tuning_init;
  file["prompt_tuning_init_text"] = text ? json(o.prompt_tuning_init_text) : json(nullptr);
  file["tokenizer_name_or_path"] = text ? json(base_model) : json(nullptr);
  file["tokenizer_kwargs"] = nullptr;
  return file;
}

}  // namespace

std::string adapter_config_json(const config::LoraConfig& given, models::Model& model, const std::string& base_model) {
  const config::LoraConfig options = as_saved(given);
  const std::string task = task_type(model.task());
  json file = {{"peft_type", options.peft_type},
               {"task_type", task.empty() ? json(nullptr) : json(task)},
               {"auto_mapping", nullptr},
               {"base_model_name_or_path", base_model},
               {"revision", nullptr},
               {"inference_mode", true},
               {"modules_to_save", or_null(options.modules_to_save)}};
  file.update(options.peft_type == "LORA"  ? lora_json(options, model)
              : options.peft_type == "IA3" ? ia3_json(options, model)
                                           : prompt_json(options, model, base_model));
  return file.dump(2) + "\n";
}

}  // namespace trainer::adapters
