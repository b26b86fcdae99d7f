#pragma once

#include "models/model.h"

namespace trainer::parallel {

/// Makes every transformer block keep only its inputs and run its forward again during backward. Attach before
/// sharding, so that a unit's values are there when the block runs again.
void checkpoint_activations(models::Model& model);

}  // namespace trainer::parallel
