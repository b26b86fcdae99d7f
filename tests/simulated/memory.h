#pragma once

#include <c10/core/Allocator.h>

namespace trainer::simulated {

/// The valid address behind one of the device's.
void* found(const void* address);
c10::Allocator& device_memory();

}  // namespace trainer::simulated
