#pragma once

#include "models/nn/device/device_kernels.h"

namespace trainer::nn::device {

/// nn::rotate. Saves the table; backward rotates back.
at::Tensor rotate(const DeviceKernels& kernels, const at::Tensor& x, const at::Tensor& table);

}  // namespace trainer::nn::device
