// Rules about adapters.
#include "engine/config/rules/groups.h"

#include <algorithm>

#include <fmt/ranges.h>

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
  const auto& targets = lora.target_modules.names;
  if (lora.peft_type != "IA3" || targets.empty()) return;
  for (const std::string& name : lora.feedforward_modules.names)
    if (std::count(targets.begin(), targets.end(), name) == 0)
      judge.refuse("lora.feedforward_modules",
                   "lora.feedforward_modules has {}, which is not in lora.target_modules [{}]", name,
                   fmt::join(targets, ", "));
}

/// How adapters start.
void adapter_init(const LoraConfig& lora, Judge& judge) {
  const std::string init = lower(lora.init_lora_weights);
  for (const char* known : {"true", "false", "gaussian", "pissa", "olora"})
    if (init == known) return;
  constexpr std::string_view kIterations = "pissa_niter_";
  const std::string count = init.starts_with(kIterations) ? init.substr(kIterations.size()) : "";
  const bool digits = std::all_of(count.begin(), count.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!count.empty() && count.size() < 4 && digits) return;
  judge.refuse("lora.init_lora_weights",
               "lora.init_lora_weights {} is not supported; true, false, gaussian, pissa, pissa_niter_N (N below 1000) "
               "and olora are",
               shown(init));
}

void prompts(const LoraConfig& lora, Judge& judge) {
  const bool prompt =
      lora.peft_type == "PROMPT_TUNING" || lora.peft_type == "P_TUNING" || lora.peft_type == "PREFIX_TUNING";
  if (prompt && lora.path.empty() && lora.num_virtual_tokens < 1)
    judge.refuse("lora.num_virtual_tokens", "lora.num_virtual_tokens is required when lora.peft_type is {}",
                 lora.peft_type);
  if (lora.peft_type == "PROMPT_TUNING" && lora.prompt_tuning_init == "TEXT" && lora.prompt_tuning_init_text.empty())
    judge.refuse("lora.prompt_tuning_init_text",
                 "lora.prompt_tuning_init_text is required when lora.prompt_tuning_init is TEXT");
  if (lora.peft_type == "P_TUNING" && lora.encoder_dropout > 0)
    judge.refuse("lora.encoder_dropout",
                 "lora.encoder_dropout is {}, but this version supports no dropout in the prompt's network: set it to "
                 "0",
                 lora.encoder_dropout);
}

void lora(const Config& config, Judge& judge) {
  if (!config.lora) return;
  const LoraConfig& lora = *config.lora;
  const std::vector<std::string> known{"LORA", "IA3", "PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING"};
  if (std::count(known.begin(), known.end(), lora.peft_type) == 0)
    judge.refuse("lora.peft_type", "lora.peft_type {} is not supported by this version; {} are", shown(lora.peft_type),
                 fmt::join(known, ", "));
  adapted_layers(lora, judge);
  adapter_init(lora, judge);
  prompts(lora, judge);
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
  const auto asked_by = [&](const char* name, int64_t size) {
    const std::string option = std::string("parallelism_config_") + name;
    const auto [key, value] = judge.asked_by("parallelism_config." + option, option, std::to_string(size));
    return fmt::format("{} is {}", key, value);
  };
  const ParallelismConfig& mesh = *config.parallelism_config;
  if (mesh.pp_size > 1 && lora.peft_type == "PREFIX_TUNING")
    judge.refuse("lora.peft_type",
                 "lora.peft_type is PREFIX_TUNING, whose prefix is computed for all blocks at once, but {}: only 1 is "
                 "supported",
                 asked_by("pp_size", mesh.pp_size));
  if (mesh.tp_size > 1 && lora.peft_type != "LORA")
    judge.refuse("lora.peft_type", "lora.peft_type is {}, but {}: tensor parallelism supports only LORA",
                 lora.peft_type, asked_by("tp_size", mesh.tp_size));
  if (mesh.tp_size > 1 && lora.use_dora)
    judge.refuse("lora.use_dora", "lora.use_dora is true, but {}: tensor parallelism supports only LoRA without DoRA",
                 asked_by("tp_size", mesh.tp_size));
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
