#pragma once

#include "models/nn/rms_norm.h"

namespace trainer::nn::reference {

/// nn::rms_norm.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                    RmsRounding rounding);

/// nn::layer_norm; `bias` may be undefined.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      at::ScalarType out_dtype);

}  // namespace trainer::nn::reference
