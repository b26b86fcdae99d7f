#pragma once

#include "models/nn/kernel_table.h"
#include "models/nn/rms_norm.h"

namespace trainer::nn::device {

/// The kernels for rms_norm() of `x`; null if there are none for these dtypes, or no rows.
const DeviceKernels* kernels_of_rms_norm(const at::Tensor& x, at::ScalarType out_dtype);

/// nn::rms_norm_and_input, with an fp32 weight. One kernel each way, and two for the weight's gradient. Backward saves
/// x and 4 bytes for each row; if the norm's dtype is narrower than x's, and rows aren't very short, the normalized
/// rows in that dtype instead of x: half of the memory, and an error of a part of the gradient that is below the
/// rounding of the gradient which comes in.
RmsNormAndInput rms_norm_and_input(const DeviceKernels& kernels, const at::Tensor& x, const at::Tensor& weight,
                                   double eps, at::ScalarType out_dtype, RmsRounding rounding);

}  // namespace trainer::nn::device
