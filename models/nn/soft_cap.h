#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// cap * tanh(x / cap), computed in fp32, returned in x's dtype; x of any shape. Saves the result for backward, which a
/// loss of it saves too. Source: Gemma 2's `final_logit_softcapping`.
at::Tensor soft_cap(const at::Tensor& x, double cap);

}  // namespace trainer::nn
