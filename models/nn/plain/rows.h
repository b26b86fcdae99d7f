// A layout as tensors on a device.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"

namespace trainer::nn::plain {

/// int64 [n] on `device`.
at::Tensor numbers(const std::vector<int64_t>& values, at::Device device);

/// What a row of tokens is to dropout: [T] int64 each.
struct RowNumbers {
  at::Tensor position;  // of its sample, in the whole run
  at::Tensor token;     // its number within its sample
};
RowNumbers row_numbers(const Layout& layout, at::Device device);

/// Rows of a tensor in a block of samples of one length, [samples, longest].
struct PaddedRows {
  at::Tensor rows;     // int64 [samples, longest]: which row stands there; padding shows some other row
  at::Tensor lengths;  // int64 [samples, 1]
  at::Tensor places;   // int64 [T]: where each row of the layout stands in the flattened block
  int64_t samples = 0, longest = 0;
};
/// `count`: rows of the tensor that the layout is of, whose spans may have gaps between them.
PaddedRows padded_rows(const Layout& layout, int64_t count, at::Device device);

}  // namespace trainer::nn::plain
