#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// Learnt keys and values in front of every sample's own, in the self-attention of every block of a frozen model (of
/// its decoder, where it has an encoder too).
Injected inject_prefix(models::Model& model, config::LoraConfig& options);

}  // namespace trainer::adapters
