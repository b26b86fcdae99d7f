#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn::plain {

/// nn::rotate.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& table);

}  // namespace trainer::nn::plain
