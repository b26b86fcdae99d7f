#pragma once

#include <cstdint>

namespace trainer::dist {

/// Has libtorch's dispatcher report every operator that this thread calls on meta tensors to record() in dry_trace.h,
/// in forward and backward. Returns a handle for the other function.
uint64_t record_operators();
void stop_recording_operators(uint64_t handle);

}  // namespace trainer::dist
