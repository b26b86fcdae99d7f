#include "engine/config/bound.h"

#include <fmt/format.h>

namespace trainer::config {

std::string to_string(const Bound& bound) {
  switch (bound.op) {
    case Bound::Operator::kAtLeast:
      return fmt::format("at least {}", bound.value);
    case Bound::Operator::kAtMost:
      return fmt::format("at most {}", bound.value);
    case Bound::Operator::kAbove:
      return fmt::format("above {}", bound.value);
    case Bound::Operator::kBelow:
      return fmt::format("below {}", bound.value);
  }
  return "";
}

}  // namespace trainer::config
