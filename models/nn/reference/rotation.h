#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn::reference {

/// nn::rotate.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& table);

}  // namespace trainer::nn::reference
