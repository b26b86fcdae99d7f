// The draws of models/nn/philox.h and mask.h, bit for bit, from tensor operators.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"

namespace trainer::nn::reference {

/// Whether elements [first, first + width) of the given tokens are kept: bool [B, width]. `position` (the sample
/// index), `token` and `head` are int64 and broadcast to B.
at::Tensor kept_elements(const DropoutRule& rule, const at::Tensor& position, const at::Tensor& token,
                         const at::Tensor& head, int64_t first, int64_t width);

/// kept_elements for every row of a layout: bool [T, width].
at::Tensor kept_mask(const DropoutRule& rule, const Layout& layout, int64_t width, at::Device device);

/// The draws of every row of a layout, uniform in (-1, 1): fp32 [T, width].
at::Tensor uniform(PhiloxKey key, const Layout& layout, int64_t width, at::Device device);

/// x * scale where `kept`, 0 elsewhere; in fp32.
at::Tensor masked(const at::Tensor& x, const at::Tensor& kept, double scale);

}  // namespace trainer::nn::reference
