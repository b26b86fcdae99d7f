// What only the test device provides.
#pragma once

#include <cstdint>

namespace trainer::testing {

/// The peak bytes of this process's tensors on the device since forget_peak().
int64_t peak_bytes();
void forget_peak();

}  // namespace trainer::testing
