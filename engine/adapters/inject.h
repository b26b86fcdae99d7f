#pragma once

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::adapters {

/// Freezes the model, puts a LoraLinear in the place of every target, and unfreezes `modules_to_save` (a module that
/// shares its weight gets one of its own, as PEFT's copy is). Returns how many layers got an adapter.
/// Errors: ConfigError (see lora_targets).
int64_t inject_lora(models::Model& model, const config::LoraConfig& options);

/// What an adapter file calls a trained parameter: "base_model.model.<name>".
std::string adapter_name(const std::string& parameter_name);

}  // namespace trainer::adapters
