// Which sample is seen when: a pure function of (seed, position), whatever the ranks.
#pragma once

#include <cstdint>
#include <string>

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

/// The samples of a run, epoch after epoch: position p of the run is in epoch p / size.
class Order {
 public:
  /// `size` > 0 samples; without `shuffle` every epoch is in the order of the files.
  Order(int64_t seed, int64_t size, bool shuffle);

  /// The sample, in [0, size), at `position` >= 0 of the run.
  int64_t sample(int64_t position) const;

  int64_t size() const { return size_; }
  int64_t epoch(int64_t position) const { return position / size_; }

 private:
  int64_t seed_, size_;
  bool shuffle_;
};

/// 64 bits over the samples at `positions`, in their order, as 16 hexadecimal digits.
std::string order_digest(const Order& order, Range positions);

/// A key for `purpose`, so that draws of different purposes do not repeat each other.
uint64_t derive_key(int64_t seed, uint64_t purpose, uint64_t number = 0);

}  // namespace trainer::data
