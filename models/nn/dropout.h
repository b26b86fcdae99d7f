// Dropout as a pure function of (seed, place, sample index, token, element): the mask doesn't depend on ranks,
// micro-batches, recomputation or resuming.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/mask.h"
#include "models/nn/philox.h"

namespace trainer::nn {

/// Drops an element when its 16-bit draw is below `threshold`. The rate is p rounded to 1/65536, and the scale is exact
/// for the rounded rate.
struct DropoutRule {
  PhiloxKey key{};
  uint32_t threshold = 0;
  float scale = 1.0F;
  int64_t first = 0;  // index of this rank's first element, or head, under tensor parallelism

  bool active() const { return threshold > 0; }
};
/// The rule for rate `p` in [0, 1); inactive when p is 0.
DropoutRule dropout_rule(PhiloxKey key, double p);

/// dropout(x), x [T, D] any float dtype, rows laid out by `layout`. Saves one bit per element for backward.
at::Tensor dropout(const at::Tensor& x, const DropoutRule& rule, const LayoutPtr& layout);

/// residual + dropout(x) in one pass; residual [T, D] fp32, x [T, D] any float dtype. Saves one bit per element.
at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutRule& rule,
                       const LayoutPtr& layout);

/// The keep mask of the elements of x [T, D] (mask.h), for fused functions that use it more than once.
at::Tensor dropout_mask(const DropoutRule& rule, const Layout& layout, const at::Tensor& x);
/// mask * x * scale, without autograd.
at::Tensor apply_mask(const at::Tensor& x, const at::Tensor& mask, float scale);

}  // namespace trainer::nn
