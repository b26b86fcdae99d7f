#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// A learnt vector on every target of a frozen model: on its input where it is one of `feedforward_modules`.
Injected inject_ia3(models::Model& model, config::LoraConfig& options);

}  // namespace trainer::adapters
