#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// The merged weight of a layer with LoRA or DoRA, as KindLayers::merge; nothing for other modules.
DerivedWeights merge_lora(const nn::Module& module);

}  // namespace trainer::adapters
