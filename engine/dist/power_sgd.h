#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// The options of torch's PowerSGDState, with its names.
struct PowerSgdOptions {
  bool batched = false;  // compress each bucket as one square matrix; else each gradient with at least two dimensions
  int64_t rank = 1;
  int64_t start_iteration = 1000;
  double min_compression_rate = 2;
  bool error_feedback = true;
  bool warm_start = true;
  double epsilon = 0;
  int64_t seed = 0;
};

/// Sums gradients over ranks as low-rank matrix products. For a gradient M [n, m], ranks exchange P [n, r] and Q [m,
/// r]; the approximation error is added to the next M. Holds an fp32 error buffer for every compressed gradient,
/// different on each rank and not saved in checkpoints. Source: Vogels, Karimireddy, Jaggi, PowerSGD (arXiv
/// 1905.13727).
class PowerSgd {
 public:
  /// `sent_as`: the dtype of the exchanged tensors.
  PowerSgd(Comm& comm, const PowerSgdOptions& options, at::ScalarType sent_as);

  /// Collective. Sums bucket number `bucket` of an update in place: `flat` is fp32, `gradients` are views of it.
  /// Buckets must come in ascending order.
  void sum(size_t bucket, const at::Tensor& flat, const std::vector<at::Tensor>& gradients);

 private:
  struct Matrix;
  std::vector<Matrix> matrices_of(size_t bucket, const at::Tensor& flat,
                                  const std::vector<at::Tensor>& gradients) const;
  at::Tensor starting_q(const Matrix& matrix);
  void sum_compressed(std::vector<Matrix>& matrices);
  /// Collective. Sums all of them with one all-reduce.
  void sum_together(const std::vector<at::Tensor>& tensors);

  Comm& comm_;
  PowerSgdOptions options_;
  at::ScalarType sent_as_;
  int64_t iteration_ = 0;
  // By bucket and index in it: the error [n, m], and Q's transpose [r, m], of the last update.
  using Key = std::pair<size_t, size_t>;
  std::map<Key, at::Tensor> lost_, q_;
};

}  // namespace trainer::dist
