// CUDA's types, as far as the kernels use them.
#pragma once

#include <cstdint>
#include <cstring>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}  // NOLINT: as CUDA's
};

struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// Rounds to the nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16(float x) {
  if (x != x) return {0x7FFF};
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

struct __half {
  uint16_t bits;
};
/// Half precision, from its bits. Subnormals are multiples of 2^-24.
inline float __half2float(__half x) {
  const uint32_t sign = uint32_t{x.bits} >> 15 << 31, exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  if (exponent == 0) return (sign != 0 ? -1.0F : 1.0F) * static_cast<float>(fraction) / 16777216.0F;
  const uint32_t bits = sign | (exponent == 31 ? 0x7F800000 : (exponent + 112) << 23) | fraction << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// Rounds to the nearest, ties to even.
inline __half __float2half(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
  const float size = x < 0 ? -x : x;
  const auto with_sign = [&](uint32_t rest) { return __half{static_cast<uint16_t>(sign | rest)}; };
  if (x != x) return {0x7FFF};
  if (size >= 65520.0F) return with_sign(0x7C00);  // infinity
  if (size < 0x1p-14F) {                           // subnormal: adding 1/2 leaves multiples of 2^-24
    const float shifted = size + 0.5F;
    std::memcpy(&bits, &shifted, sizeof bits);
    return with_sign(bits - 0x3F000000);
  }
  bits &= 0x7FFFFFFF;
  return with_sign((bits + 0xFFF + (bits >> 13 & 1) - (112U << 23)) >> 13);
}
