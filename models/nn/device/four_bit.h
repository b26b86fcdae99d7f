// 4-bit blocks, decoded by a device's kernel.
#pragma once

#include <vector>

#include "models/nn/device/device_kernels.h"

namespace trainer::nn::device {

/// As reference::decode_four_bits, in one pass; `out` has an element_type(). `shared` [n, 2] and `map` if the scales
/// are quantized, else undefined and unused.
void decode_four_bits(const DeviceKernels& kernels, const at::Tensor& blocks, const at::Tensor& shared,
                      const std::vector<float>& map, const FourBitCode& code, const at::Tensor& out);

}  // namespace trainer::nn::device
