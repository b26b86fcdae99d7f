#pragma once

#include <cstddef>
#include <cstdint>

namespace trainer {

/// CRC-32C (Castagnoli) of `size` bytes, continuing from `crc` (0 to start). Uses the CPU's instruction where it has
/// one.
uint32_t crc32c(const void* data, size_t size, uint32_t crc = 0);

}  // namespace trainer
