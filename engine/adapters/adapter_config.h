#pragma once

#include <string>

#include "engine/config/sections/adapters.h"
#include "models/model.h"

namespace trainer::adapters {

/// adapter_config.json as PEFT writes it, for the adapter that a run saves with `options` (completed by inject).
std::string adapter_config_json(const config::LoraConfig& options, models::Model& model, const std::string& base_model);

}  // namespace trainer::adapters
