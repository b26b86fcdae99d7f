#include <algorithm>

#include "engine/base/errors.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const AdapterKind* kind : adapter_kinds()) names.push_back(kind->name);
  return names;
}

/// The options of every kind of adapter.
Entries common_options() {
  using C = LoraConfig;
  return entries_of<C>(
      option("path", &C::path)
          .help("An adapter folder to start from. Its adapter_config.json sets the options below; only dropouts can be "
                "overridden.")
          .path(),
      option("peft_type", &C::peft_type)
          .help("The kind of adapter.")
          .one_of(kind_names(), "another PEFT type, which is refused"),
      option("task_type", &C::task_type)
          .help("PEFT's name for the task; must match data.task.")
          .one_of({"", "CAUSAL_LM", "SEQ_2_SEQ_LM", "SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"}),
      option("inference_mode", &C::inference_mode).help("Must be false; otherwise there is nothing to train."),
      option("modules_to_save", &C::modules_to_save)
          .help("Layers that are trained in full and saved with the adapters."),
      option("fan_in_fan_out", &C::fan_in_fan_out)
          .help("The weights are stored transposed, as GPT-2's are.")
          .no_effect("the model's layers determine how weights are stored"));
}

/// The rest of PEFT's LoraConfig.
Entries foreign_options() {
  return foreign_table(
      no_effect("auto_mapping", "PEFT fills it in itself"), no_effect("base_model_name_or_path", "model.path sets it"),
      no_effect("megatron_core", "no layer comes from Megatron-LM"),
      no_effect("peft_version", "it is only informational"),
      no_effect("qalora_group_size", "it is for QALoRA, which is not supported"),
      no_effect("revision", "model.path is a folder"),
      unsupported("alora_invocation_tokens", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("arrow_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("corda_config", "this version supports LoRA, rsLoRA and DoRA"),
      no_effect("ensure_weight_tying", "tied modules stay tied"),
      unsupported("eva_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("kasa_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("layer_replication", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("loftq_config", "weights are not quantized"), unsupported("lora_bias", "adapters have no bias"),
      unsupported("lora_ga_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("megatron_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("monteclora_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("target_parameters", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("trainable_token_indices", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("use_bdlora", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("use_qalora", "weights are not quantized"),
      unsupported("velora_config", "this version supports LoRA, rsLoRA and DoRA"));
}

/// Adds the kinds for which it has an effect, and their defaults.
Entry of_kinds(Entry entry) {
  const auto takes = [name = entry.name](const AdapterKind& kind) { return kind.takes(name); };
  entry.condition = "lora.peft_type is " + adapter_kinds_that(takes, "or");
  entry.applies = [takes](const Config& c) {
    const AdapterKind* kind = c.lora ? find_adapter_kind(c.lora->peft_type) : nullptr;
    return kind != nullptr && takes(*kind);
  };
  for (const AdapterKind* kind : adapter_kinds()) {
    const Node value = entry.write(&kind->defaults);
    if (kind->takes(entry.name) && !same(value, entry.initial))
      entry.help += fmt::format(" The default of {} is {}.", kind->name, text_of(value));
  }
  return entry;
}

}  // namespace

const Entries& lora_table() {
  static const Entries entries = [] {
    Entries all = common_options();
    for (const AdapterKind* kind : adapter_kinds())
      for (const Entry& entry : kind->options) all.push_back(of_kinds(entry));
    require(all.size() == count_fields<LoraConfig>(), "every field of LoraConfig has one entry in its table");
    const Entries foreign = foreign_options();
    all.insert(all.end(), foreign.begin(), foreign.end());
    return all;
  }();
  return entries;
}

}  // namespace trainer::config
