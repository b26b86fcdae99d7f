// Dropout as a pure function of (seed, place, the sample's position in the run, token, element): the same mask whatever
// the ranks, the micro-batches, recomputation or resume.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/philox.h"

namespace trainer::nn {

/// Drops an element when its 16-bit draw is below `threshold`. The rate is p rounded to 1/65536, and the scale is exact
/// for the rounded rate.
struct DropoutRule {
  PhiloxKey key{};
  uint32_t threshold = 0;
  float scale = 1.0F;

  bool active() const { return threshold > 0; }
};
/// The rule for rate `p` in [0, 1); inactive when p is 0.
DropoutRule dropout_rule(PhiloxKey key, double p);

/// dropout(x), x [T, D] any float dtype; the rows are those of `layout`. Backward draws the mask again.
at::Tensor dropout(const at::Tensor& x, const DropoutRule& rule, const LayoutPtr& layout);

/// residual + dropout(x) in one pass; residual [T, D] fp32, x [T, D] any float dtype. Saves nothing.
at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutRule& rule, const LayoutPtr& layout);

/// out = mask * x * scale (or out += …), without autograd: for fused backward passes. x, out [T, D] contiguous.
void apply_dropout(const at::Tensor& x, const DropoutRule& rule, const Layout& layout, at::Tensor& out, bool accumulate);

/// The draws of one row: `out` holds round_up(n, 128) numbers. `head` separates the heads of attention probabilities.
inline void dropout_draws(const DropoutRule& rule, int64_t position, int64_t token, int64_t head, int64_t n, uint16_t* out) {
  philox_u16(rule.key, static_cast<uint64_t>(position), static_cast<uint32_t>(token), static_cast<uint32_t>(head) << 20,
             (n + kPhiloxChunk - 1) / kPhiloxChunk, out);
}

}  // namespace trainer::nn
