#pragma once

#include "models/nn/device/device_kernels.h"

namespace trainer::nn::device {

/// nn::activate_gated, or nn::activate without `up`. Saves gate and up, and two numbers per row if it drops elements.
at::Tensor activate(const DeviceKernels& kernels, const at::Tensor& gate, const std::optional<at::Tensor>& up,
                    Activation activation, const DropoutRule& rule, const LayoutPtr& layout);

}  // namespace trainer::nn::device
