// What modules take and give.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/shared_gradient.h"

namespace trainer::nn {

/// A tensor with one row per token and the layout of its rows. The layout is null for a tensor that isn't one of tokens
/// (a position bias, a rotary table).
struct Rows {
  at::Tensor x;  // [T, ...]
  LayoutPtr layout = nullptr;
  SharedGradientPtr gradient = nullptr;  // of x, if several layers read it: see share_gradient()

  /// `y` [T, ...] with the same layout.
  Rows with(at::Tensor y) const { return {std::move(y), layout}; }
  /// The same values in `dtype`.
  Rows to(at::ScalarType dtype) const { return x.scalar_type() == dtype ? *this : with(x.to(dtype)); }
};
using RowsList = std::vector<Rows>;

}  // namespace trainer::nn
