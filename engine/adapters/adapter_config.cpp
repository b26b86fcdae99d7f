#include "engine/adapters/adapter_config.h"

#include <nlohmann/json.hpp>

#include "engine/adapters/decomposition.h"
#include "engine/adapters/inject_lora.h"
#include "engine/adapters/model_facts.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

using nlohmann::json;

constexpr const char* kNone = "(?!)";  // the pattern that matches nothing, where an empty list is something else

template <class T>
json or_null(const std::vector<T>& values) {
  return values.empty() ? json(nullptr) : json(values);
}

json names_or_pattern(const config::NamesOrPattern& value) {
  return value.pattern.empty() ? or_null(value.names) : json(value.pattern);
}

/// A whole number as one, as PEFT declares alpha.
json number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return value == static_cast<double>(whole) ? json(whole) : json(value);
}

json init_json(const std::string& init) {
  if (init == "true" || init == "false") return init == "true";
  return init;
}

const char* bias_name(config::LoraBias bias) {
  return bias == config::LoraBias::kNone ? "none" : bias == config::LoraBias::kAll ? "all" : "lora_only";
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
          {"bias", bias_name(o.bias)},
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

config::NamesOrPattern to_names(const json& value) {
  config::NamesOrPattern out;
  if (value.is_string())
    out.pattern = value.get<std::string>();
  else if (value.is_array())
    out.names = value.get<std::vector<std::string>>();
  return out;
}

/// The list at `key`; a single value is a list of one, null or nothing an empty one.
template <class T>
std::vector<T> to_list(const json& file, const char* key) {
  const json value = file.value(key, json());
  if (value.is_null()) return {};
  return value.is_array() ? value.get<std::vector<T>>() : std::vector<T>{value.get<T>()};
}

/// Variants that change the forward pass: refused rather than ignored.
void refuse_variants(const json& file, const std::string& where) {
  for (const char* key : {"use_qalora", "use_bdlora", "lora_bias"})
    if (file.contains(key) && !file[key].is_null() && file[key] != false)
      throw InputError("{}: {} is set; this version trains LoRA, rsLoRA and DoRA.", where, key);
  for (const char* key :
       {"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "megatron_config",
        "monteclora_config", "target_parameters", "trainable_token_indices", "velora_config"})
    if (file.contains(key) && !file[key].is_null())
      throw InputError("{}: {} is set; this version trains LoRA, rsLoRA and DoRA.", where, key);
}

/// What the file's init means for the weights beside the adapter: PEFT repeats it when it loads the folder.
std::string read_init(const json& file, const std::string& where) {
  const json value = file.value("init_lora_weights", json(true));
  const std::string init = value.is_string() ? value.get<std::string>() : "true";
  if (init == "pissa" || init == "olora") return init;
  for (const char* changed : {"pissa_niter_", "corda", "loftq", "lora_ga", "mica"})
    if (init.starts_with(changed))
      throw InputError(
          "{}: init_lora_weights is '{}': the adapter fits weights that were changed in a way that the folder doesn't "
          "hold.\n  Save it from PEFT with path_initial_model_for_weight_conversion.",
          where, init);
  return "true";
}

config::LoraBias read_bias(const json& file, const std::string& where) {
  const std::string bias = file.value("bias", "none");
  for (const auto known : {config::LoraBias::kNone, config::LoraBias::kAll, config::LoraBias::kLoraOnly})
    if (bias == bias_name(known)) return known;
  throw InputError("{}: bias is '{}'; it must be none, all or lora_only.", where, bias);
}

void read_lora(const json& file, const std::string& where, config::LoraConfig& o) {
  refuse_variants(file, where);
  o.r = file.value("r", o.r);
  o.rank_pattern = file.value("rank_pattern", std::map<std::string, int64_t>());
  o.alpha_pattern = file.value("alpha_pattern", std::map<std::string, double>());
  if (o.r < 1) throw InputError("{}: r is {}; it must be at least 1.", where, file.value("r", json()).dump());
  for (const auto& [pattern, rank] : o.rank_pattern)
    if (rank < 1) throw InputError("{}: rank_pattern: {} is {}; it must be at least 1.", where, pattern, rank);
  o.lora_alpha = file.value("lora_alpha", o.lora_alpha);
  o.use_rslora = file.value("use_rslora", false);
  o.use_dora = file.value("use_dora", false);
  o.layers_to_transform = to_list<int64_t>(file, "layers_to_transform");
  o.layers_pattern = to_list<std::string>(file, "layers_pattern");
  o.bias = read_bias(file, where);
  o.init_lora_weights = read_init(file, where);
}

void read_prompt(const json& file, const std::string& where, config::LoraConfig& o) {
  o.num_virtual_tokens = file.value("num_virtual_tokens", int64_t{0});
  o.prompt_tuning_init = "RANDOM";  // the values are in the folder
  o.prefix_projection = false;
  o.encoder_hidden_size = 0;
  if (o.num_virtual_tokens < 1 || o.num_virtual_tokens > int64_t{1} << 20)
    throw InputError("{}: num_virtual_tokens is {}; it must be at least 1.", where,
                     file.value("num_virtual_tokens", json()).dump());
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

config::LoraConfig read_adapter_config(const std::string& folder, config::LoraConfig options) {
  const std::string where = folder + "/adapter_config.json";
  const json file = json::parse(read_file(where, int64_t{1} << 20), nullptr, false);
  if (!file.is_object()) throw InputError("{}: not a JSON object.", where);
  try {
    options.peft_type = file.value("peft_type", "");
    options.target_modules = to_names(file.value("target_modules", json()));
    options.exclude_modules = to_names(file.value("exclude_modules", json()));
    options.feedforward_modules = to_names(file.value("feedforward_modules", json()));
    if (file.value("feedforward_modules", json()) == json::array()) options.feedforward_modules.pattern = kNone;
    options.modules_to_save = to_list<std::string>(file, "modules_to_save");
    if (options.peft_type == "LORA")
      read_lora(file, where, options);
    else if (options.peft_type == "P_TUNING" || file.value("prefix_projection", false))
      throw InputError("{}: an adapter of {} holds what its network made, not the network: it can't be trained on.",
                       where, options.peft_type);
    else if (options.peft_type == "PROMPT_TUNING" || options.peft_type == "PREFIX_TUNING")
      read_prompt(file, where, options);
    else if (options.peft_type != "IA3")
      throw InputError(
          "{}: peft_type is '{}'; this version trains on adapters of LORA, IA3, PREFIX_TUNING and PROMPT_TUNING.",
          where, options.peft_type);
  } catch (const json::exception& error) {
    throw InputError("{}: a value has the wrong type: {}", where, error.what());
  }
  return options;
}

}  // namespace trainer::adapters
