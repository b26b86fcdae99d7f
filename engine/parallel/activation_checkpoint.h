#pragma once

#include "models/model.h"

namespace trainer::parallel {

/// Makes every transformer block save only its inputs and rerun its forward in backward. Call before sharding, so that
/// a unit's values are gathered when the block reruns. With `offload`, the first input of a block on a device waits in
/// the host's memory. (The others, such as T5's encoder states, are shared by all blocks.)
void checkpoint_activations(models::Model& model, bool offload);

}  // namespace trainer::parallel
