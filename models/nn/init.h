#pragma once

#include "models/nn/parameter.h"

namespace trainer::nn {

/// Writes elements [begin, end) of `parameter`, drawn from `seed`, to `out` [end - begin], contiguous fp32.
/// A pure function of (seed, name, element): each rank draws only its own shard and no communication is needed.
void draw(const Parameter& parameter, uint64_t seed, int64_t begin, int64_t end, float* out);

}  // namespace trainer::nn
