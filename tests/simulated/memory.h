#pragma once

#include <c10/core/Allocator.h>

namespace trainer::simulated {

/// The valid address behind one of the device's.
void* found(const void* address);
c10::Allocator& device_memory();

/// Memory of the host that the device can copy to and from while the host goes on.
c10::Allocator& pinned_memory();
bool is_pinned(const void* address);
/// Whether this process has any.
bool any_pinned();

}  // namespace trainer::simulated
