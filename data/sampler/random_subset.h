// A random part of the records.
#pragma once

#include "data/sampler/sample_order.h"

namespace trainer::data {

/// `count` of the indices [0, size), or all of them if there are fewer: a pure function of the seed.
class RandomSubset {
 public:
  RandomSubset(int64_t seed, int64_t size, int64_t count) : order_(derive_key(seed, kPurpose), size), count_(count) {}

  /// 0 <= index < size.
  bool has(int64_t index) const { return order_(index) < count_; }

 private:
  static constexpr uint64_t kPurpose = 5;  // differs from those in sample_order.cpp

  Permutation order_;
  int64_t count_;
};

}  // namespace trainer::data
