// Rows of numbers in 8 bits.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// Blocks of a row share a scale, the largest of their absolute values / 127: each value is at most half a scale off.
/// The values of a block with one that isn't finite are NaN.
struct EightBitRows {
  at::Tensor codes;   // int8, of x's shape
  at::Tensor scales;  // fp32 [blocks, 1]
};

/// Of x [..., width] of a floating dtype, not empty. Blocks have 128 elements, or are whole rows if that doesn't divide
/// the width, so that a row's codes don't depend on other rows.
EightBitRows to_eight_bits(const at::Tensor& x);
/// The values in `dtype`.
at::Tensor from_eight_bits(const EightBitRows& rows, at::ScalarType dtype);

}  // namespace trainer::nn
