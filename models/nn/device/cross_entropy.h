#pragma once

#include "models/nn/device/device_kernels.h"
#include "models/nn/row_losses.h"

namespace trainer::nn::device {

/// The RowSums of each row of this rank's logits [R, V]: [R, 4] fp64. One kernel, which reads the logits once.
at::Tensor row_sums(const DeviceKernels& kernels, const at::Tensor& logits, const Targets& targets);

/// nn::row_slopes into `out`, which may be the logits. One kernel.
void row_slopes(const DeviceKernels& kernels, const at::Tensor& logits, const Targets& targets,
                const at::Tensor& log_sum, const at::Tensor& factor, const at::Tensor& out);

}  // namespace trainer::nn::device
