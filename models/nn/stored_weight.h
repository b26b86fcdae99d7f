// A weight as products read it.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "models/nn/storage.h"
#include "models/nn/stored_rows.h"

namespace trainer::nn {

// Note [Stored weights]
// A frozen weight keeps the 16 bits of its file, or 4, while its layer computes in fp32. Where products are ours, each
// panel of the weight is widened when it is packed (Note [Products by tiles]), with the bits of the widened weight. As
// a tensor, that would be written to memory and read again by each product: for 8 rows in fp32 with a weight of 16
// bits, that is five times the time of reading it; and a head of 128,000 words would take a gigabyte.

/// A weight W for products with a tensor of rows, or with a part of them.
class StoredWeight {
 public:
  /// `rows` [m, k]: of the products, which are in its dtype.
  StoredWeight(const at::Tensor& value, const Storage& storage, const at::Tensor& rows);

  /// a W, or a W^T.
  at::Tensor multiply(const at::Tensor& a, bool transposed) const;
  /// The same; `out` is contiguous.
  void multiply(const at::Tensor& a, bool transposed, at::Tensor& out) const;

 private:
  bool transposed_;  // what is stored is W^T
  int64_t height_, width_;
  bool reads_rows_ = false;
  std::unique_ptr<StoredRows> rows_;  // null in a dry run
  at::Tensor decoded_;                // if products don't read the rows
};

}  // namespace trainer::nn
