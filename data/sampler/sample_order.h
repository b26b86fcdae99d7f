// The sample order: a pure function of (seed, sample index), independent of the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/sampler/range.h"

namespace trainer::data {

/// A pseudorandom permutation of [0, size) with O(1) access to each element and no storage: equal keys give equal
/// permutations. Source: swap-or-not shuffle; Hoang, Morris, Rogaway, "An Enciphering Scheme Based on a Card Shuffle",
/// 2012. It works on any size directly and mixes small ones well.
class Permutation {
 public:
  Permutation(uint64_t key, int64_t size) : key_(key), size_(static_cast<uint64_t>(size)) {}

  /// The image of `index`, 0 <= index < size.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t key_, size_;
};

/// The inputs of a sample order.
struct SampleOrderOptions {
  int64_t seed = 0;
  bool shuffle = true;                            // false: every epoch is in file order
  std::vector<int64_t> sources;                   // samples of each source; sources are stored back to back
  std::vector<double> weights;                    // relative weight of each source; empty: every sample once per epoch
  std::function<int64_t(int64_t sample)> length;  // if set, samples of similar length are grouped
  int64_t left_out = 0;                           // samples that each epoch ends without
};

/// The sample order of a run, epoch after epoch: sample index p is in epoch p / size. With weights, an epoch has as
/// many draws as there are samples, and a source with more draws than samples starts over. Each epoch leaves out others
/// of the samples, unless they are in file order.
class SampleOrder {
 public:
  /// Errors: InternalError for no samples, or weights that don't match the sources.
  explicit SampleOrder(SampleOrderOptions options);
  SampleOrder(int64_t seed, int64_t size, bool shuffle)
      : SampleOrder(SampleOrderOptions{seed, shuffle, {size}, {}, {}}) {}

  /// The sample at sample index `position` >= 0 of the run.
  int64_t sample(int64_t position) const;

  /// The sample indices of an epoch.
  int64_t size() const { return size_; }
  int64_t epoch(int64_t position) const { return position / size_; }

 private:
  int64_t plain(int64_t position) const;
  int64_t mixed(int64_t position) const;
  int64_t by_length(int64_t position) const;

  SampleOrderOptions options_;
  int64_t samples_ = 0, size_ = 0;
  std::vector<int64_t> quotas_;  // draws of each source in a block
  mutable int64_t window_ = -1;  // the window in `sorted_`
  mutable std::vector<int64_t> sorted_;
};

/// A 64-bit digest of the samples at the sample indices `positions`, in order, as 16 hexadecimal digits.
std::string order_digest(const SampleOrder& order, Range positions);

/// A key for `purpose`, so that draws for different purposes are independent.
uint64_t derive_key(int64_t seed, uint64_t purpose, uint64_t number = 0);

}  // namespace trainer::data
