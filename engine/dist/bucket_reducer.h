#pragma once

#include <memory>
#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Sums gradients over ranks in buckets while backward still runs: c10d's Reducer, with a hook that sums (it would
/// divide by the number of ranks) and buckets fixed in reverse order of the parameters (rebuilding them would change
/// the order of Gloo's additions, so that a resumed run would differ in bits).
class BucketReducer {
 public:
  /// `parameters`: leaves that need gradients, the same on every rank. Gradients become views of the buckets.
  BucketReducer(std::vector<at::Tensor> parameters, Comm& comm, double bucket_megabytes);
  ~BucketReducer();

  /// Collective, through the backward that follows: its gradients are reduced. Without this call they only accumulate.
  void reduce_next_backward();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::dist
