#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// torch's PowerSGDState by its names.
struct PowerSgdOptions {
  bool batched = false;  // a bucket is one square matrix; else each gradient with two dimensions or more is one
  int64_t rank = 1;
  int64_t start_iteration = 1000;
  double min_compression_rate = 2;
  bool error_feedback = true;
  bool warm_start = true;
  double epsilon = 0;
  int64_t seed = 0;
};

/// Adds up gradients over ranks as products of two thin matrices. Of a gradient M [n, m] ranks exchange P [n, r] and
/// Q [m, r]; what that loses is added to the next M. Keeps a fp32 copy of all that is compressed, on each rank another
/// one, which no checkpoint holds. Source: Vogels, Karimireddy, Jaggi, PowerSGD (arXiv 1905.13727).
class PowerSgd {
 public:
  /// `sent_as`: the dtype of what is exchanged.
  PowerSgd(Comm& comm, const PowerSgdOptions& options, at::ScalarType sent_as);

  /// Collective. Sums bucket number `bucket` of an update in place: `flat` fp32, of which `gradients` are views.
  /// Buckets come in the order of their numbers.
  void sum(size_t bucket, const at::Tensor& flat, const std::vector<at::Tensor>& gradients);

 private:
  struct Matrix;
  std::vector<Matrix> matrices_of(size_t bucket, const at::Tensor& flat,
                                  const std::vector<at::Tensor>& gradients) const;
  at::Tensor starting_q(const Matrix& matrix);
  void sum_compressed(std::vector<Matrix>& matrices);
  /// Collective. Sums all of them with one exchange.
  void sum_together(const std::vector<at::Tensor>& tensors);

  Comm& comm_;
  PowerSgdOptions options_;
  at::ScalarType sent_as_;
  int64_t iteration_ = 0;
  // By bucket and place in it: what was lost [n, m], and Q's transpose [r, m] of the last update.
  using Key = std::pair<size_t, size_t>;
  std::map<Key, at::Tensor> lost_, q_;
};

}  // namespace trainer::dist
