#pragma once

#include "models/model.h"

namespace trainer::parallel {

/// Makes every transformer block save only its inputs and rerun its forward in backward. Call before sharding, so that
/// a unit's values are gathered when the block reruns.
void checkpoint_activations(models::Model& model);

}  // namespace trainer::parallel
