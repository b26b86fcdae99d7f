// Bounds of a number.
#pragma once

#include <string>

namespace trainer::config {

/// What a number must be: at least 1, below 1, …
struct Bound {
  enum class Operator { kAtLeast, kAtMost, kAbove, kBelow };

  Operator op;
  double value;

  bool holds(double number) const {
    switch (op) {
      case Operator::kAtLeast:
        return number >= value;
      case Operator::kAtMost:
        return number <= value;
      case Operator::kAbove:
        return number > value;
      case Operator::kBelow:
        return number < value;
    }
    return false;
  }
};

/// "at least 1"
std::string to_string(const Bound& bound);

}  // namespace trainer::config
