#include "models/nn/tile_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TRAINER_TILE_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define TRAINER_TILE_INLINE TRAINER_TILE_TARGET __attribute__((always_inline)) static inline
#define TRAINER_AVX512_INLINE TRAINER_TILE_INLINE
#include "models/nn/multiply_tile.h"
#include "models/nn/transpose_avx512.h"
#endif

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

struct Avx512 {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16, kVectors = 4;

  static Mask first_lanes(int64_t count) { return static_cast<Mask>((1 << count) - 1); }
  TRAINER_TILE_INLINE Vector broadcast(float x) { return _mm512_set1_ps(x); }
  TRAINER_TILE_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
  TRAINER_TILE_INLINE Vector load(Mask lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
  TRAINER_TILE_INLINE void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
  TRAINER_TILE_INLINE void store(Mask lanes, float* to, Vector x) { _mm512_mask_storeu_ps(to, lanes, x); }
  TRAINER_TILE_INLINE Vector multiply(Vector x, Vector y) { return _mm512_mul_ps(x, y); }
  TRAINER_TILE_INLINE Vector multiply_add(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }
};

TRAINER_TILE_TARGET void transpose_avx512(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                                          int64_t to_stride) {
  constexpr int kLanes = Avx512::kLanes;
  __m512 x[kLanes];
  const __mmask16 lanes = Avx512::first_lanes(columns);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    x[i] = i < rows ? _mm512_maskz_loadu_ps(lanes, from + i * stride) : _mm512_setzero_ps();
  transpose_rows(x);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) _mm512_storeu_ps(to + i * to_stride, x[i]);
}

constexpr TileKernels make_avx512_kernels() {
  TileKernels kernels{
      .lanes = Avx512::kLanes, .vectors = Avx512::kVectors, .multiply = {}, .transpose = transpose_avx512};
  add_by_rows<Avx512, 1>(kernels);
  add_by_rows<Avx512, 2>(kernels);
  add_by_rows<Avx512, 3>(kernels);
  add_by_rows<Avx512, 4>(kernels);
  return kernels;
}

}  // namespace
#endif

const TileKernels* avx512_tile_kernels() {
#if defined(__x86_64__)
  static constexpr TileKernels kKernels = make_avx512_kernels();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("fma"))
    return &kKernels;
#endif
  return nullptr;
}

}  // namespace trainer::nn
