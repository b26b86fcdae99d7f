#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::nn::plain {

/// From its inputs, by differentiable operators, and always the same.
using Composition = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// f(inputs), of which only the inputs are kept for backward, which computes it again: so a plain layer holds no more
/// than a fused one. Every input is defined; those that need a gradient get theirs.
at::Tensor recompute(const std::vector<at::Tensor>& inputs, const Composition& f);

}  // namespace trainer::nn::plain
