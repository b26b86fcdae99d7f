#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// Replaces every target of a frozen model by LoRA or DoRA layers; unfreezes biases according to `options.bias`.
Injected inject_lora(models::Model& model, config::LoraConfig& options);

/// The options of the adapter that a run with `options` saves: decomposed starts (Note [Decomposed start]) double the
/// rank.
config::LoraConfig as_saved(config::LoraConfig options);

}  // namespace trainer::adapters
