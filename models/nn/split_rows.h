// Rows of tokens split over a group of ranks: each works on some and gathers all where they are needed.
#pragma once

#include <vector>

#include "models/nn/layout.h"
#include "models/nn/tensor_group.h"

namespace trainer::nn {

// Note [Shared rows]
// Sequence and context parallelism are both built on this. Sequence parallel: the tensor-parallel ranks also split the
// rows between tensor-parallel regions, one slice of the batch each; a region begins with an all-gather of them and
// ends with a reduce-scatter of partial sums. Context parallel: ranks keep the rows split throughout, and gather only
// the keys and values for attention. Dropout, norms and residuals work on a rank's own rows, and random draws are
// numbered by a token's index in its sample (Layout::slices).

/// Which rank has which rows. Every member is a collective of the group and supports autograd.
class SplitRows {
 public:
  using TensorGroupPtr = std::shared_ptr<const TensorGroup>;
  /// `rows`: per rank, the ranges of rows that it has, in its order. Together they cover every row once.
  SplitRows(TensorGroupPtr group, const std::vector<std::vector<Range>>& rows);

  /// Gathers every rank's rows [t, W] to all rows [T, W]. Backward: sums gradients over ranks.
  static at::Tensor all(const LayoutPtr& rows, const at::Tensor& mine);
  /// Like all(), if every rank uses the result identically and so has the same gradient of it.
  static at::Tensor all_replicated(const LayoutPtr& rows, const at::Tensor& mine);
  /// Sums `shares` [T, W] over ranks and returns this rank's rows of it [t, W]. `shares` is overwritten.
  static at::Tensor sum(const LayoutPtr& rows, const at::Tensor& shares);

  /// Without autograd: gather all rows; sum over ranks and take own rows; take own rows.
  at::Tensor gather(const at::Tensor& mine) const;
  at::Tensor add_up(const at::Tensor& shares) const;
  at::Tensor take(const at::Tensor& all) const;

  int64_t count() const { return count_; }  // rows of all ranks

 private:
  TensorGroupPtr group_;
  int64_t count_ = 0, most_ = 0;  // rows of all ranks; of the rank with the most
  // Row indices; on the CPU until another device needs them.
  mutable at::Tensor own_;     // of this rank's rows
  mutable at::Tensor places_;  // of each row in the gathered rows, `most_` per rank; undefined: already in order
};

/// Sequence parallel: splits `rows` evenly into one contiguous slice per rank, in rank order, and returns this rank's.
LayoutPtr slice_of(const LayoutPtr& rows, const SplitRows::TensorGroupPtr& group);

}  // namespace trainer::nn
