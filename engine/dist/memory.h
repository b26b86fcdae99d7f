#pragma once

#include <cstdint>

namespace trainer::dist {

/// Counts the bytes of all tensors of this process from now on: wraps libtorch's CPU allocator. Call once, early.
void count_tensor_memory();

/// Counts memory that did not come from the allocator (negative: freed).
void add_tensor_bytes(int64_t bytes);

/// Bytes held by tensors now, and the peak since the last reset.
int64_t tensor_bytes();
int64_t peak_tensor_bytes();
void reset_peak_tensor_bytes();

/// The peak resident memory of this process, in bytes.
int64_t peak_resident_bytes();

}  // namespace trainer::dist
