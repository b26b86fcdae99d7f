// What one rendering may use up, so that a hostile template ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/chat/jinja/failure.h"

namespace trainer::data::jinja {

struct Limits {
  int64_t steps = 20'000'000;  // evaluated nodes, and items or 16 bytes of text that an operation goes over
  int64_t bytes = 256 << 20;   // all texts and lists that are made, dead ones too
  int depth = 400;             // evaluation within evaluation: expressions, statements, macros
  int64_t range = 100'000;     // items of a range, as in Jinja's sandbox
};

/// Nesting of lists and dicts within each other.
inline constexpr int kMaxValueDepth = 80;

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(size_t count = 1) {
    steps_ += static_cast<int64_t>(count);
    if (steps_ > limits_.steps) throw BadOperation("the template takes more than {} steps", limits_.steps);
  }

  /// Before `bytes` are made.
  void make(size_t bytes) {
    if (bytes > static_cast<size_t>(limits_.bytes) || (bytes_ += static_cast<int64_t>(bytes)) > limits_.bytes)
      throw BadOperation("the template makes more than {} MiB of texts and lists", limits_.bytes >> 20);
    step(bytes / 16);
  }

  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
  int64_t steps_ = 0, bytes_ = 0;
};

}  // namespace trainer::data::jinja
