#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// cap * tanh(x / cap), computed in fp32, returned in x's dtype; x of any shape. Saves the result for backward, which a
/// loss of it saves too. Source: Gemma 2's `final_logit_softcapping`.
at::Tensor soft_cap(const at::Tensor& x, double cap);

/// The same in place of a contiguous x, without autograd.
void soft_cap_(const at::Tensor& x, double cap);
/// Turns `grad`, that of the result `capped`, into the gradient of x. Both contiguous.
void soft_cap_backward_(const at::Tensor& grad, const at::Tensor& capped, double cap);

}  // namespace trainer::nn
