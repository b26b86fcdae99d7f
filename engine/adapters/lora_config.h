#pragma once

#include <string>

#include "engine/config/sections.h"

namespace trainer::adapters {

/// adapter_config.json as PEFT writes it. `task_type`: PEFT's name of the run's task.
std::string adapter_config_json(const config::LoraConfig& options, const std::string& base_model,
                                const std::string& task_type, const std::vector<std::string>& default_targets);

/// `options` with what the adapter folder's adapter_config.json says (rank, alpha, targets, …).
/// Errors: InputError for a file that is no LoRA, or uses a variant this version does not train.
config::LoraConfig read_adapter_config(const std::string& folder, config::LoraConfig options);

}  // namespace trainer::adapters
