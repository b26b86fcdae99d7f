#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// Adds a learned vector to every target of a frozen model; it scales the input of `feedforward_modules`.
Injected inject_ia3(models::Model& model, config::LoraConfig& options);

}  // namespace trainer::adapters
