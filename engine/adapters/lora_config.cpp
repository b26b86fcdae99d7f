#include "engine/adapters/lora_config.h"

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::adapters {
namespace {

using nlohmann::json;

json names_or_pattern(const config::NamesOrPattern& value) {
  if (!value.pattern.empty()) return value.pattern;
  return value.names.empty() ? json(nullptr) : json(value.names);
}

config::NamesOrPattern to_names(const json& value) {
  config::NamesOrPattern out;
  if (value.is_string())
    out.pattern = value.get<std::string>();
  else if (value.is_array())
    out.names = value.get<std::vector<std::string>>();
  return out;
}

json init_json(const std::string& init) {
  if (init == "true" || init == "false") return init == "true";
  return init;
}

const char* bias_name(config::LoraBias bias) {
  return bias == config::LoraBias::kNone ? "none" : bias == config::LoraBias::kAll ? "all" : "lora_only";
}

/// Variants that change the forward pass: refused rather than ignored.
void refuse_variants(const json& file, const std::string& where) {
  for (const char* key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias"})
    if (file.contains(key) && file[key] == true)
      throw InputError("{}: {} is true; this version trains plain LoRA only.", where, key);
  for (const char* key : {"alora_invocation_tokens", "target_parameters", "trainable_token_indices",
                          "layer_replication", "layers_to_transform", "megatron_config"})
    if (file.contains(key) && !file[key].is_null())
      throw InputError("{}: {} is set; this version trains plain LoRA only.", where, key);
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (file.contains(key) && !file[key].empty())
      throw InputError("{}: {} is set; this version uses one rank for all layers.", where, key);
}

}  // namespace

std::string adapter_config_json(const config::LoraConfig& o, const std::string& base_model,
                                const std::string& task_type, const std::vector<std::string>& default_targets) {
  config::NamesOrPattern targets = o.target_modules;
  if (targets.empty()) targets.names = default_targets;
  const json file = {{"peft_type", "LORA"},
                     {"task_type", task_type},
                     {"auto_mapping", nullptr},
                     {"base_model_name_or_path", base_model},
                     {"revision", nullptr},
                     {"inference_mode", true},
                     {"r", o.r},
                     {"lora_alpha", o.lora_alpha == static_cast<double>(static_cast<int64_t>(o.lora_alpha))
                                        ? json(static_cast<int64_t>(o.lora_alpha))
                                        : json(o.lora_alpha)},
                     {"lora_dropout", o.lora_dropout},
                     {"target_modules", names_or_pattern(targets)},
                     {"exclude_modules", names_or_pattern(o.exclude_modules)},
                     {"modules_to_save", o.modules_to_save.empty() ? json(nullptr) : json(o.modules_to_save)},
                     {"bias", bias_name(o.bias)},
                     {"use_rslora", o.use_rslora},
                     {"use_dora", false},
                     {"fan_in_fan_out", o.fan_in_fan_out},
                     {"init_lora_weights", init_json(o.init_lora_weights)},
                     {"layers_to_transform", nullptr},
                     {"layers_pattern", nullptr},
                     {"rank_pattern", json::object()},
                     {"alpha_pattern", json::object()}};
  return file.dump(2) + "\n";
}

config::LoraConfig read_adapter_config(const std::string& folder, config::LoraConfig options) {
  const std::string where = folder + "/adapter_config.json";
  const json file = json::parse(read_file(where, int64_t{1} << 20), nullptr, false);
  if (!file.is_object()) throw InputError("{}: not a JSON object.", where);
  try {
    if (file.value("peft_type", "") != "LORA")
      throw InputError("{}: peft_type is '{}'; this version trains LORA.", where, file.value("peft_type", ""));
    refuse_variants(file, where);
    options.r = file.value("r", options.r);
    if (options.r < 1) throw InputError("{}: r is {}; it must be at least 1.", where, file.value("r", json()).dump());
    options.lora_alpha = file.value("lora_alpha", options.lora_alpha);
    options.use_rslora = file.value("use_rslora", false);
    options.target_modules = to_names(file.value("target_modules", json()));
    options.exclude_modules = to_names(file.value("exclude_modules", json()));
    const json saved = file.value("modules_to_save", json());
    if (saved.is_array()) options.modules_to_save = saved.get<std::vector<std::string>>();
    if (file.value("bias", "none") != "none")
      throw InputError("{}: bias is '{}'; this version trains none.", where, file.value("bias", ""));
  } catch (const json::exception& error) {
    throw InputError("{}: a value has the wrong type: {}", where, error.what());
  }
  return options;
}

}  // namespace trainer::adapters
