// Which sample is seen when: a pure function of (seed, position), whatever the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/range.h"

namespace trainer::data {

/// A pseudorandom permutation of [0, size) with O(1) access to each element and nothing stored: equal keys give equal
/// permutations. Source: swap-or-not shuffle; Hoang, Morris, Rogaway, "An Enciphering Scheme Based on a Card Shuffle",
/// 2012. It works on any size directly and mixes small ones well.
class Permutation {
 public:
  Permutation(uint64_t key, int64_t size) : key_(key), size_(static_cast<uint64_t>(size)) {}

  /// Where `index` goes, 0 <= index < size.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t key_, size_;
};

/// What an order is made of.
struct OrderOptions {
  int64_t seed = 0;
  bool shuffle = true;           // false: every epoch is in the order of the files
  std::vector<int64_t> sources;  // samples of each source, which lie one behind the other
  std::vector<double> weights;   // how often each source is drawn, in proportion; empty: every sample once an epoch
  std::function<int64_t(int64_t sample)> length;  // when given, samples of like length come together
};

/// The samples of a run, epoch after epoch: position p of the run is in epoch p / size. With weights an epoch is as
/// many draws as there are samples, and a source that is drawn more often than it has samples begins anew.
class Order {
 public:
  /// Errors: InternalError for no samples, or weights that don't fit the sources.
  explicit Order(OrderOptions options);
  Order(int64_t seed, int64_t size, bool shuffle) : Order(OrderOptions{seed, shuffle, {size}, {}, {}}) {}

  /// The sample, in [0, size), at `position` >= 0 of the run.
  int64_t sample(int64_t position) const;

  int64_t size() const { return size_; }
  int64_t epoch(int64_t position) const { return position / size_; }

 private:
  int64_t plain(int64_t position) const;
  int64_t mixed(int64_t position) const;
  int64_t by_length(int64_t position) const;

  OrderOptions options_;
  int64_t size_ = 0;
  std::vector<int64_t> quotas_;  // draws of each source in a block
  mutable int64_t window_ = -1;  // which window `sorted_` holds
  mutable std::vector<int64_t> sorted_;
};

/// 64 bits over the samples at `positions`, in their order, as 16 hexadecimal digits.
std::string order_digest(const Order& order, Range positions);

/// A key for `purpose`, so that draws of different purposes do not repeat each other.
uint64_t derive_key(int64_t seed, uint64_t purpose, uint64_t number = 0);

}  // namespace trainer::data
