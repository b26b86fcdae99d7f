// A layout as tensors on a device.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"

namespace trainer::nn::reference {

/// int64 [n] on the host, to be sent to `device`.
at::Tensor numbers(const std::vector<int64_t>& values, at::Device device);

/// The counters of each row for dropout: [T] int64 each.
struct RowNumbers {
  at::Tensor position;  // sample index in the run
  at::Tensor token;     // index within the sample
};
RowNumbers row_numbers(const Layout& layout, at::Device device);

/// Maps the rows of a tensor to a padded block of samples, [samples, longest].
struct PaddedRows {
  at::Tensor rows;     // int64 [samples, longest]: index of the row; arbitrary for padding
  at::Tensor lengths;  // int64 [samples, 1]
  at::Tensor places;   // int64 [T]: index of each row of the layout in the flattened block
  int64_t samples = 0, longest = 0;
};
/// `count`: number of rows of the tensor that the layout describes; its spans may have gaps between them.
PaddedRows padded_rows(const Layout& layout, int64_t count, at::Device device);

}  // namespace trainer::nn::reference
