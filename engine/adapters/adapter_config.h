#pragma once

#include <string>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::adapters {

/// adapter_config.json as PEFT writes it, for what a run with `options` (as inject left them) saves of `model`.
std::string adapter_config_json(const config::LoraConfig& options, models::Model& model, const std::string& base_model);

/// `options` with what the adapter folder's adapter_config.json says (kind, rank, alpha, targets, …).
/// Errors: InputError for a kind or a variant this version does not train, or an adapter that can't be trained on.
config::LoraConfig read_adapter_config(const std::string& folder, config::LoraConfig options);

}  // namespace trainer::adapters
