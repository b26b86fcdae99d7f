// bitsandbytes' 8-bit data type.
#pragma once

#include <vector>

namespace trainer::nn {

/// 256 ascending values up to 1, with more digits the larger they are: bitsandbytes' create_dynamic_map. Source:
/// Dettmers 2015, "8-Bit Approximations for Parallelism in Deep Learning".
std::vector<float> dynamic_map(bool with_sign);

}  // namespace trainer::nn
