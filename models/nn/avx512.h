// For kernels written in AVX-512.
#pragma once

#if defined(__x86_64__)
#include <cstdint>

#include <immintrin.h>

// The attributes of functions in these instructions, and of those that become a part of them.
#define TRAINER_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define TRAINER_AVX512_INLINE TRAINER_AVX512 __attribute__((always_inline)) static inline

namespace trainer::nn {

inline bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}

inline constexpr int64_t kLanes = 16;  // of 32 bits

/// The first `count` lanes, or all of them.
TRAINER_AVX512_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xFFFF : (1 << count) - 1);
}

TRAINER_AVX512_INLINE __m512d as_pairs(__m512 x) {
  return _mm512_castps_pd(x);
}

/// Transposes 16 x 16 elements of 32 bits, of which each register has a row.
TRAINER_AVX512_INLINE void transpose_rows(__m512 x[kLanes]) {
  __m512 y[kLanes];
  // Within each quarter of the registers, 4 x 4 elements: first pairs of rows, then pairs of pairs.
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    x[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(as_pairs(y[i]), as_pairs(y[i + 2])));
    x[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(as_pairs(y[i]), as_pairs(y[i + 2])));
    x[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(as_pairs(y[i + 1]), as_pairs(y[i + 3])));
    x[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(as_pairs(y[i + 1]), as_pairs(y[i + 3])));
  }
  // Then the quarters: 0x88 takes the even ones of two registers, 0xDD the odd ones.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    y[i] = _mm512_shuffle_f32x4(x[i], x[4 + i], 0x88);
    y[4 + i] = _mm512_shuffle_f32x4(x[i], x[4 + i], 0xDD);
    y[8 + i] = _mm512_shuffle_f32x4(x[8 + i], x[12 + i], 0x88);
    y[12 + i] = _mm512_shuffle_f32x4(x[8 + i], x[12 + i], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_shuffle_f32x4(y[i], y[8 + i], 0x88);
    x[4 + i] = _mm512_shuffle_f32x4(y[4 + i], y[12 + i], 0x88);
    x[8 + i] = _mm512_shuffle_f32x4(y[i], y[8 + i], 0xDD);
    x[12 + i] = _mm512_shuffle_f32x4(y[4 + i], y[12 + i], 0xDD);
  }
}

}  // namespace trainer::nn
#endif
