// 4-bit blocks, decoded by libtorch's operators.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/four_bit_kernels.h"

namespace trainer::nn::reference {

/// The scale of each block [n] in fp32; `blocks` [n, bytes] uint8. `shared` [n, 2] and `map`, 256 values, if the scales
/// are quantized (FourBitScales); else `shared` is undefined.
at::Tensor four_bit_scales(const at::Tensor& blocks, const at::Tensor& shared, const std::vector<float>& map);

/// Decodes `blocks` to `out` [n, 64], a part after the other: the temporaries, 6 bytes per value, stay below 100 MB.
void decode_four_bits(const at::Tensor& blocks, const at::Tensor& scales, const FourBitCode& code,
                      const at::Tensor& out);

}  // namespace trainer::nn::reference
