// Loops over blocks of 64 values of 4 bits.
#pragma once

#include <cstdint>

namespace trainer::nn {

constexpr int64_t kFourBitBlock = 64, kFourBitBytes = kFourBitBlock / 2;

/// The 16 values that codes stand for, in [-1, 1].
struct FourBitCode {
  float values[16];   // by code
  uint8_t order[16];  // the codes by ascending value
};

/// largest[b]: the largest absolute value of block b of `values` [blocks, 64].
void largest_of_blocks(const float* values, int64_t blocks, float* largest);

/// Writes the nearest codes of values / largest, the first of two in the upper half of a byte, to `out`: 32 bytes for
/// each block, `stride` bytes apart.
void encode_four_bits(const float* values, const float* largest, const FourBitCode& code, int64_t blocks,
                      int64_t stride, uint8_t* out);

/// The values of codes times the scale of their block, rounded once to T (float, at::BFloat16 or at::Half).
template <class T>
void decode_four_bits(const uint8_t* codes, int64_t stride, const float* scales, const FourBitCode& code,
                      int64_t blocks, T* out);

}  // namespace trainer::nn
