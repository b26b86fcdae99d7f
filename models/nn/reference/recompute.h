#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::nn::reference {

/// A deterministic composition of differentiable operators.
using Composition = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// f(inputs), which saves only the inputs for backward and recomputes f there, so a reference layer saves no more than
/// a fused one. All inputs must be defined; those that require a gradient get one. `name`: of a scope that profilers and
/// dry runs see around forward and backward; null: none.
at::Tensor recompute(const std::vector<at::Tensor>& inputs, const Composition& f, const char* name = nullptr);

}  // namespace trainer::nn::reference
