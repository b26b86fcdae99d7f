#pragma once

#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Gradients in memory that the ranks share, which each of them adds up a part of after backward: nothing is sent, and
/// the gradients of an update may replace those of the last one. Sums have the bits of a BucketReducer's (but MPI's),
/// whose buckets these are: rows of values, one per rank, bucket after bucket.
class SharedBuckets {
 public:
  /// Collective. Gives `parameters`, leaves in fp32 on the CPU, the same on every rank, gradients of zeros. Without
  /// effect where ranks share no memory: then defined() is false.
  SharedBuckets(const std::vector<at::Tensor>& parameters, Comm& comm, int64_t bucket_bytes);

  bool defined() const { return rows_.defined(); }
  /// Collective. Replaces the gradients with their sums over the ranks.
  void sum();

 private:
  Comm& comm_;
  at::Tensor rows_;             // [R, n]
  std::vector<int64_t> sizes_;  // of the buckets
};

}  // namespace trainer::dist
