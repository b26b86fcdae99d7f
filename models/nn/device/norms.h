#pragma once

#include "models/nn/rms_norm.h"

namespace trainer::nn {

/// Whether devices of this type have aten::_fused_rms_norm and aten::native_layer_norm with their backward, from now on.
/// Not for use while layers run.
void use_fused_norms(c10::DeviceType type, bool has);

namespace device {

/// nn::rms_norm and nn::layer_norm, where layers run as reference layers. One operator forward and one backward if the
/// device has it, beside conversions between fp32 and `out_dtype`; statistics are fp32. Backward saves x and 4 bytes
/// for each row, or 8.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                    RmsRounding rounding);
/// `bias` may be undefined.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      at::ScalarType out_dtype);

}  // namespace device
}  // namespace trainer::nn
