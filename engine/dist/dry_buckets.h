#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// What BucketReducer exchanges, for a dry run: a bucket's all-reduce starts when the gradients of its last leaf and of
/// all buckets before it are there, and the end of backward waits for all of them. It allocates nothing.
class DryBuckets {
 public:
  /// `buckets`: indices of `leaves`, in the order of their reduction. `sent_as`: the dtype of the exchange.
  DryBuckets(const std::vector<at::Tensor>& leaves, const std::vector<std::vector<size_t>>& buckets, Comm& comm,
             at::ScalarType sent_as);
  ~DryBuckets();

  /// The next backward's gradients are reduced.
  void reduce_next_backward();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the leaves' hooks
};

}  // namespace trainer::dist
