#include "engine/config/plan/adapter_folder.h"

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/document/problems.h"
#include "engine/config/names.h"

namespace trainer::config {
namespace {

using nlohmann::json;

constexpr int64_t kMaxFile = int64_t{1} << 20;
constexpr const char* kNone = "(?!)";  // a pattern that matches nothing; an empty list means the defaults

NamesOrPattern to_names(const json& value) {
  NamesOrPattern out;
  if (value.is_string())
    out.pattern = value.get<std::string>();
  else if (value.is_array())
    out.names = value.get<std::vector<std::string>>();
  return out;
}

/// The list at `key`; a single value is a list of one, null or a missing key an empty list.
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
      throw InputError("{}: {} is set; this version supports LoRA, rsLoRA and DoRA.", where, key);
  for (const char* key :
       {"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "megatron_config",
        "monteclora_config", "target_parameters", "trainable_token_indices", "velora_config"})
    if (file.contains(key) && !file[key].is_null())
      throw InputError("{}: {} is set; this version supports LoRA, rsLoRA and DoRA.", where, key);
}

/// What the file's init does to the base weights: PEFT repeats it when it loads the folder.
std::string read_init(const json& file, const std::string& where) {
  const json value = file.value("init_lora_weights", json(true));
  const std::string init = value.is_string() ? value.get<std::string>() : "true";
  if (init == "pissa" || init == "olora") return init;
  for (const char* changed : {"pissa_niter_", "corda", "loftq", "lora_ga", "mica"})
    if (init.starts_with(changed))
      throw InputError(
          "{}: init_lora_weights is '{}': the adapter fits modified base weights, which the folder doesn't contain.\n  "
          "Save it from PEFT with path_initial_model_for_weight_conversion.",
          where, init);
  return "true";
}

LoraBias read_bias(const json& file, const std::string& where) {
  const std::string bias = file.value("bias", "none");
  for (const auto known : {LoraBias::kNone, LoraBias::kAll, LoraBias::kLoraOnly})
    if (bias == name_of(known)) return known;
  throw InputError("{}: bias is '{}'; it must be none, all or lora_only.", where, bias);
}

void read_lora(const json& file, const std::string& where, LoraConfig& o) {
  refuse_variants(file, where);
  o.r = file.value("r", o.r);
  o.rank_pattern = file.value("rank_pattern", o.rank_pattern);
  o.alpha_pattern = file.value("alpha_pattern", o.alpha_pattern);
  if (o.r < 1) throw InputError("{}: r is {}; it must be at least 1.", where, file.value("r", json()).dump());
  for (const auto& [pattern, rank] : o.rank_pattern)
    if (rank < 1) throw InputError("{}: rank_pattern: {} is {}; it must be at least 1.", where, pattern, rank);
  o.lora_alpha = file.value("lora_alpha", o.lora_alpha);
  o.lora_dropout = file.value("lora_dropout", o.lora_dropout);
  o.use_rslora = file.value("use_rslora", false);
  o.use_dora = file.value("use_dora", false);
  o.layers_to_transform = to_list<int64_t>(file, "layers_to_transform");
  o.layers_pattern = to_list<std::string>(file, "layers_pattern");
  o.bias = read_bias(file, where);
  o.init_lora_weights = read_init(file, where);
}

void read_prompt(const json& file, const std::string& where, LoraConfig& o) {
  o.num_virtual_tokens = file.value("num_virtual_tokens", int64_t{0});
  if (o.num_virtual_tokens < 1 || o.num_virtual_tokens > int64_t{1} << 20)
    throw InputError("{}: num_virtual_tokens is {}; it must be at least 1.", where,
                     file.value("num_virtual_tokens", json()).dump());
}

}  // namespace

std::string adapter_config_file(const std::string& folder) {
  return folder + "/adapter_config.json";
}

LoraConfig read_adapter_config(const LoraConfig& given) {
  const std::string where = adapter_config_file(given.path);
  if (!std::filesystem::exists(where))
    throw InputError(
        "lora.path: {} {}.\n  It must be an adapter folder as PEFT saves it: adapter_config.json and "
        "adapter_model.safetensors.",
        given.path, std::filesystem::exists(given.path) ? "has no adapter_config.json" : "does not exist");
  json file = json::parse(read_file(where, kMaxFile), nullptr, false);
  if (!file.is_object()) throw InputError("{}: not a JSON object.", where);
  for (auto at = file.begin(); at != file.end();) at = at->is_null() ? file.erase(at) : std::next(at);
  LoraConfig options;
  options.path = given.path;
  options.inference_mode = given.inference_mode;
  options.task_type = given.task_type;
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
      throw InputError(
          "{}: a {} adapter contains the output of its network, not the network: it can't be trained further.", where,
          options.peft_type);
    else if (options.peft_type == "PROMPT_TUNING" || options.peft_type == "PREFIX_TUNING")
      read_prompt(file, where, options);
    else if (options.peft_type != "IA3")
      throw InputError(
          "{}: peft_type is '{}'; this version can continue training LORA, IA3, PREFIX_TUNING and PROMPT_TUNING "
          "adapters.",
          where, options.peft_type);
  } catch (const json::exception& error) {
    throw InputError("{}: a value has the wrong type: {}", where, error.what());
  }
  return options;
}

std::map<std::string, Mark> adapter_config_marks(const std::string& folder) {
  std::map<std::string, Mark> marks;
  try {
    Problems ignored;
    const std::string file = adapter_config_file(folder);
    for (const Member& member : parse_json(read_file(file, kMaxFile), file, ignored).members)
      marks[member.key] = member.value.mark;
  } catch (const Error&) {  // larger than a configuration can be: do without the positions
  }
  return marks;
}

}  // namespace trainer::config
