// The tensor-parallel group, as the layers see it.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "models/nn/part.h"

namespace trainer::nn {

/// All ranks of the group call the same members in the same order, with equal shapes and dtypes.
class TensorGroup {
 public:
  virtual ~TensorGroup() = default;
  /// Collective, in place; the result is bitwise equal on every rank.
  virtual void sum(const at::Tensor& tensor) const = 0;
  virtual void max(const at::Tensor& tensor) const = 0;
  /// Collective. Concatenates every rank's `mine` [n, W] in rank order: [n * size(), W].
  virtual at::Tensor gather(const at::Tensor& mine) const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
};

/// A vocabulary whose tokens are split over the tensor-parallel ranks: this rank has the logits of those in `mine`.
struct PartitionedVocabulary {
  std::shared_ptr<const TensorGroup> group;
  Range mine{0, 0};
  int64_t whole = 0;

  /// logits [R, mine] → [R, whole], for callers that need all logits. Without autograd. Collective.
  at::Tensor gather(const at::Tensor& logits) const;
};

}  // namespace trainer::nn
