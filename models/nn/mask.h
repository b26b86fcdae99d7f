// Which elements of [T, D] are kept: one bit each, so that saving a mask costs 1/32 of an activation and backward
// redraws nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/philox.h"

namespace trainer::nn {

/// Bytes of one row of bits; rows are padded to whole chunks of draws.
constexpr int64_t mask_bytes(int64_t width) {
  return (width + kPhiloxChunk - 1) / kPhiloxChunk * (kPhiloxChunk / 8);
}

/// Bits of elements [first, first + width) of a token: set where the 16-bit draw is at least `threshold`. `head`
/// separates the draws of one token.
void draw_mask_row(PhiloxKey key, uint32_t threshold, int64_t position, int64_t token, int64_t head, int64_t first,
                   int64_t width, uint8_t* bits);

/// The bits of elements [first, first + width) of every row of `layout`: uint8 [T, mask_bytes(width)] on `device`.
at::Tensor draw_mask(PhiloxKey key, uint32_t threshold, const Layout& layout, int64_t first, int64_t width,
                     at::Device device);

/// out[i] = bit i ? kept : 0, for i in [0, n).
void expand_mask_row(const uint8_t* bits, float kept, int64_t n, float* out);

/// Sets bit i where x[i] > 0, for i in [0, n).
void positive_mask_row(const float* x, int64_t n, uint8_t* bits);

}  // namespace trainer::nn
