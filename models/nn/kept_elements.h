// Dropout within a function that has its own backward.
#pragma once

#include "models/nn/dropout.h"

namespace trainer::nn {

/// The elements of x [T, D] that dropout keeps, for a function that drops the same ones again in its backward. The
/// function saves `first` and `second`: a mask, or, on a device whose kernel draws it each time, two numbers per row.
struct KeptElements {
  DropoutRule rule;
  at::Tensor first, second;
};
KeptElements kept_elements(const DropoutRule& rule, const Layout& layout, const at::Tensor& x);
/// x without the other elements, times the rule's scale; x itself if the rule is inactive. Without autograd.
at::Tensor drop_others(const KeptElements& kept, const at::Tensor& x);

}  // namespace trainer::nn
