// A loss that is not simply the sum of the losses of its rows.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// A loss, and its derivative by the cross-entropy of each row.
struct LossOfRows {
  at::Tensor sum;      // a scalar, fp64
  at::Tensor weights;  // [R] fp32, where the rows are; undefined: 1 each
};

/// Computes a loss from the cross-entropy [R] fp64 of the rows, without autograd. Null stands for their sum.
using RowsToLoss = std::function<LossOfRows(const at::Tensor& losses)>;

/// `convert`'s loss of these rows.
inline LossOfRows loss_of_rows(const RowsToLoss& convert, const at::Tensor& losses) {
  return convert ? convert(losses) : LossOfRows{losses.sum(), {}};
}

}  // namespace trainer::nn
