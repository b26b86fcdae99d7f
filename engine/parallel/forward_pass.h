#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace trainer::parallel {

/// A record of one forward pass of sharded weights, for its backward.
struct ForwardPass {
  explicit ForwardPass(size_t units) : uses_left(units, 0) {}

  /// A unit's forward that a backward follows.
  struct Use {
    size_t unit;
    int64_t region;  // 0: the forward pass; else the number of a recomputation within backward
  };
  std::vector<Use> uses;           // in the order in which the forwards finished
  std::vector<int64_t> uses_left;  // per unit: uses whose backward has not begun
};
using ForwardPassPtr = std::shared_ptr<ForwardPass>;

}  // namespace trainer::parallel
