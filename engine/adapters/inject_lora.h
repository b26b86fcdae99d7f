#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// LoRA and DoRA in the place of every target of a frozen model; biases are unfrozen as `options.bias` says.
Injected inject_lora(models::Model& model, config::LoraConfig& options);

/// The options that fit what a run with `options` saves: starts that were taken out of the weights (Note [Decomposed
/// start]) make adapters of twice the rank.
config::LoraConfig as_saved(config::LoraConfig options);

}  // namespace trainer::adapters
