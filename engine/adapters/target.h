#pragma once

#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::adapters {

/// The paths of the linear layers that get an adapter, by PEFT's rules: a name in a list matches the whole path or its
/// end after a dot; a pattern must match the whole path; "all-linear" is every linear but the output head; exclusions
/// and `modules_to_save` go first. Nothing named: the family's defaults.
/// Errors: ConfigError that lists the candidates when nothing matches, or when a pattern is not a regular expression.
std::vector<std::string> lora_targets(models::Model& model, const config::LoraConfig& options);

/// The modules that `modules_to_save` names: trained in full and saved with the adapter.
std::vector<nn::Module*> modules_to_save(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
