#pragma once

#include "models/nn/device/device_kernels.h"

namespace trainer::nn::device {

/// nn::dropout_add, or nn::dropout without a residual. Saves two numbers per row: backward draws the mask again.
at::Tensor dropout_add(const DeviceKernels& kernels, const std::optional<at::Tensor>& residual, const at::Tensor& x,
                       const DropoutRule& rule, const LayoutPtr& layout);
/// Whether the kernels support these dtypes.
bool supports_dropout(const std::optional<at::Tensor>& residual, const at::Tensor& x);

/// x [T, D] without the elements that aren't drawn, times the rule's scale; without autograd.
at::Tensor dropped(const DeviceKernels& kernels, const at::Tensor& x, const LayoutDraws& draws);

/// reference::kept_mask.
at::Tensor kept_mask(const DeviceKernels& kernels, const DropoutRule& rule, const Layout& layout, const at::Tensor& x);

}  // namespace trainer::nn::device
