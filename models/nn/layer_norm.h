#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, computed in fp32, returned in
/// `out_dtype`. x [..., D] fp32, weight and bias [D] of any float dtype; bias undefined: none. Saves x, the mean and
/// 1 / deviation. Source: Ba et al. 2016.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      at::ScalarType out_dtype);

}  // namespace trainer::nn
