// What only the device for tests tells.
#pragma once

#include <cstdint>

namespace trainer::testing {

/// The most bytes that this process's tensors have held on it since forget_peak().
int64_t peak_bytes();
void forget_peak();

}  // namespace trainer::testing
