// Rules about adapters.
#include "engine/config/rules/groups.h"

#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

/// Our task for PEFT's name; "" if there is none.
std::string task_of(const std::string& task_type) {
  if (task_type == "CAUSAL_LM") return "causal_lm";
  if (task_type == "SEQ_2_SEQ_LM") return "seq2seq_lm";
  if (task_type == "SEQ_CLS") return "sequence_classification";
  return "";
}

/// Which layers get an adapter, by PEFT's own rules.
void adapted_layers(const LoraConfig& lora, Judge& judge) {
  const std::string& pattern = lora.target_modules.pattern;
  const auto needs_list = [&](const char* option, bool given) {
    if (given && !pattern.empty())
      judge.refuse(std::string("lora.") + option,
                   "lora.{} needs a list in lora.target_modules, which is the pattern {}: select the layers in the "
                   "pattern instead",
                   option, shown(pattern));
  };
  needs_list("layers_to_transform", !lora.layers_to_transform.empty());
  needs_list("layers_pattern", !lora.layers_pattern.empty());
  if (!lora.layers_pattern.empty() && lora.layers_to_transform.empty())
    judge.refuse("lora.layers_pattern",
                 "lora.layers_pattern needs lora.layers_to_transform, the indices of the layers");
  for (const auto& [layers, rank] : lora.rank_pattern)
    if (rank < 1) judge.refuse("lora.rank_pattern", "lora.rank_pattern: {} is {}; it must be at least 1", layers, rank);
}

void lora(const Config& config, Judge& judge) {
  if (!config.lora) return;
  const LoraConfig& lora = *config.lora;
  const AdapterKind* kind = find_adapter_kind(lora.peft_type);
  if (kind == nullptr)
    judge.refuse("lora.peft_type", "lora.peft_type {} is not supported by this version; {} are", shown(lora.peft_type),
                 adapter_kinds_that([](const AdapterKind&) { return true; }, "and"));
  adapted_layers(lora, judge);
  if (kind != nullptr && kind->takes("num_virtual_tokens") && lora.path.empty() && lora.num_virtual_tokens < 1)
    judge.refuse("lora.num_virtual_tokens", "lora.num_virtual_tokens is required when lora.peft_type is {}",
                 lora.peft_type);
  if (kind != nullptr && kind->check != nullptr) kind->check(lora, judge);
  if (lora.inference_mode) {
    judge.refuse("lora.inference_mode", "lora.inference_mode is true, which leaves nothing to train: set it to false");
  }
  const std::string task = name_of(config.data.task);
  if (!lora.task_type.empty() && task_of(lora.task_type) != task) {
    judge.refuse("lora.task_type", "lora.task_type {} doesn't match data.task {}", lora.task_type, task);
  }
}

/// Which parallelism supports which adapters. The sizes of the mesh are those of the file, or were translated from
/// other keys.
void adapter_on_mesh(const Config& config, Judge& judge) {
  if (!config.lora || !config.parallelism_config) return;
  const LoraConfig& lora = *config.lora;
  const AdapterKind* kind = find_adapter_kind(lora.peft_type);
  if (kind == nullptr) return;
  const auto asked_by = [&](const char* name, int64_t size) {
    const std::string option = std::string("parallelism_config_") + name;
    const auto [key, value] = judge.asked_by("parallelism_config." + option, option, std::to_string(size));
    return fmt::format("{} is {}", key, value);
  };
  const int64_t tensor = config.parallelism_config->tp_size, pipeline = config.parallelism_config->pp_size;
  const AdapterMesh mesh{tensor, pipeline, asked_by("tp_size", tensor), asked_by("pp_size", pipeline)};
  if (kind->check_mesh != nullptr) kind->check_mesh(lora, mesh, judge);
  if (mesh.tensor > 1 && !kind->splits)
    judge.refuse("lora.peft_type", "lora.peft_type is {}, but {}: tensor parallelism supports only {}", kind->name,
                 mesh.tensor_given, adapter_kinds_that([](const AdapterKind& known) { return known.splits; }, "and"));
}

}  // namespace

std::vector<Rule> rules_of_adapters() {
  return {
      {"lora-fits", "Adapters must be of a supported kind, trainable, and made for the task.", lora},
      {"adapter-fits-mesh", "Tensor, context and pipeline parallelism must support the kind of adapter.",
       adapter_on_mesh},
  };
}

}  // namespace trainer::config
