// The part of numpy.random.RandomState that shuffling needs.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace trainer::data {

/// Draws as `RandomState(seed)` does: consecutive shuffles continue one stream.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed) : engine_(seed) {}

  /// A number in [0, max]. `max` is below 2^32.
  uint32_t at_most(uint32_t max);

  /// `RandomState.shuffle` of a one-dimensional array.
  void shuffle(std::span<uint32_t> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[at_most(static_cast<uint32_t>(i))]);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace trainer::data
