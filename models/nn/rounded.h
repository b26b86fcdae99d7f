// Rounding in a form that compilers can vectorize.
#pragma once

#include <bit>
#include <cstdint>

#include <c10/util/BFloat16.h>

namespace trainer::nn {

/// x rounded to T.
template <class T>
inline __attribute__((always_inline)) T rounded(float x) {
  return static_cast<T>(x);
}

/// As c10 rounds, ties to even and every NaN to one. Its branch on NaN keeps loops scalar.
template <>
inline __attribute__((always_inline)) c10::BFloat16 rounded<c10::BFloat16>(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t half = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return {static_cast<uint16_t>(is_nan ? 0x7FC0 : half), c10::BFloat16::from_bits()};
}

}  // namespace trainer::nn
