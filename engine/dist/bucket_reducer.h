#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/dist/comm.h"
#include "engine/dist/power_sgd.h"

namespace trainer::dist {

/// How gradients are exchanged.
struct GradientExchange {
  double bucket_megabytes = 25;
  at::ScalarType sent_as = at::kFloat;
  std::optional<PowerSgdOptions> power_sgd;

  int64_t bucket_bytes() const { return static_cast<int64_t>(bucket_megabytes * 1024 * 1024); }
  /// Whether gradients are summed as they are.
  bool is_exact() const { return sent_as == at::kFloat && !power_sgd; }
};

/// Sums gradients over ranks in buckets while backward still runs: c10d's Reducer, with a hook that sums (the default
/// divides by the number of ranks) and buckets fixed in reverse order of the parameters (rebuilding them would change
/// the order of Gloo's additions, so a resumed run would not be bitwise equal). In a dry run, only the exchanges are
/// recorded, at full size also under PowerSGD.
class BucketReducer {
 public:
  /// `parameters`: leaves that require gradients, the same on every rank. Gradients become views of the buckets.
  BucketReducer(std::vector<at::Tensor> parameters, Comm& comm, const GradientExchange& exchange);
  ~BucketReducer();

  /// Collective, through the next backward of `loss`: its gradients are reduced. Without this call they only
  /// accumulate. Parameters that no rank's `loss` depends on get a zero gradient.
  void reduce_next_backward(const at::Tensor& loss);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::dist
