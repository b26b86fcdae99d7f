// Limits of one rendering, so that a hostile template terminates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/chat/jinja/failure.h"

namespace trainer::data::jinja {

struct Limits {
  int64_t steps = 20'000'000;  // evaluated nodes, plus items or 16-byte blocks of strings that an operation visits
  int64_t bytes = 256 << 20;   // all strings and lists that are created, including freed ones
  int depth = 400;             // nested evaluation: expressions, statements, macros
  int64_t range = 100'000;     // items of a range, as in Jinja's sandbox
};

/// The maximum nesting of lists and dicts.
inline constexpr int kMaxValueDepth = 80;

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(size_t count = 1) {
    steps_ += static_cast<int64_t>(count);
    if (steps_ > limits_.steps) throw BadOperation("the template takes more than {} steps", limits_.steps);
  }

  /// To be called before `bytes` are allocated.
  void make(size_t bytes) {
    if (bytes > static_cast<size_t>(limits_.bytes) || (bytes_ += static_cast<int64_t>(bytes)) > limits_.bytes)
      throw BadOperation("the template creates more than {} MiB of strings and lists", limits_.bytes >> 20);
    step(bytes / 16);
  }

  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
  int64_t steps_ = 0, bytes_ = 0;
};

}  // namespace trainer::data::jinja
