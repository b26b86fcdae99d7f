#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// Adds learned keys and values in front of every sample's own, in the self-attention of every block of a frozen model
/// (of every decoder block in an encoder-decoder model).
Injected inject_prefix(models::Model& model, config::LoraConfig& options);

}  // namespace trainer::adapters
