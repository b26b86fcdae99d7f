// The rows of one head of one sample, or of several side by side, in fp32.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/gemm.h"
#include "models/nn/layout.h"

namespace trainer::nn {

/// Columns [head * d, (head + heads) * d) of a sample's rows in a contiguous tensor [tokens, heads * d] of any floating
/// type. They stay in the tensor if it is fp32; else they are in memory of the thread, one row after the other.
class HeadRows {
 public:
  using Memory = std::vector<float>;  // grows to the largest head, and is kept for the next one

  HeadRows(const at::Tensor& of, Span rows, int64_t head, int64_t d, int64_t heads = 1)
      : tensor_(of), at_(rows.begin * of.size(1) + head * d), rows_(rows.length), width_(heads * d) {}

  /// The rows as they are in the tensor.
  Matrix read(Memory& memory) const;

  /// Where to write the rows, and their stride.
  struct Place {
    float* data;
    int64_t stride;
  };
  Place place(Memory& memory) const;
  /// The same, with all rows 0.
  Place zeros(Memory& memory) const;
  /// Called after the rows have been written.
  void finish(const Memory& memory) const;

 private:
  bool stays() const { return tensor_.scalar_type() == at::kFloat; }

  const at::Tensor& tensor_;
  int64_t at_, rows_, width_;
};

}  // namespace trainer::nn
