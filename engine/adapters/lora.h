#pragma once

#include <string>

#include "engine/adapters/lora_linear.h"
#include "engine/config/sections/adapters.h"

namespace trainer::adapters {

/// The rank, scale and dropout of the adapter of the layer `path`, without its initialization.
LoraShape lora_shape(const config::LoraConfig& options, const std::string& path);

}  // namespace trainer::adapters
