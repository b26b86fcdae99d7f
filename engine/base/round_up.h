#pragma once

#include <cstdint>

namespace trainer {

/// The smallest multiple of `to` that is at least `n`, for n >= 0.
constexpr int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace trainer
