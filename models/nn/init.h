#pragma once

#include "models/nn/parameter.h"

namespace trainer::nn {

/// Writes elements [begin, end) of `parameter` as drawn from `seed` into `out` [end - begin], contiguous fp32.
/// A pure function of (seed, name, element): ranks draw only their own piece and agree without talking.
void draw(const Parameter& parameter, uint64_t seed, int64_t begin, int64_t end, float* out);

}  // namespace trainer::nn
