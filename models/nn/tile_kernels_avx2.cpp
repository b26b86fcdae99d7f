#include "models/nn/tile_kernels.h"

#if defined(__x86_64__)
#include <cstring>

#include <immintrin.h>

#define TRAINER_TILE_TARGET __attribute__((target("avx2,fma")))
#define TRAINER_TILE_INLINE TRAINER_TILE_TARGET __attribute__((always_inline)) static inline
#include "models/nn/multiply_tile.h"
#endif

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

struct Avx2 {
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr int kLanes = 8, kVectors = 2;

  TRAINER_TILE_INLINE Mask first_lanes(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  TRAINER_TILE_INLINE Vector broadcast(float x) { return _mm256_set1_ps(x); }
  TRAINER_TILE_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
  TRAINER_TILE_INLINE Vector load(Mask lanes, const float* from) { return _mm256_maskload_ps(from, lanes); }
  TRAINER_TILE_INLINE Vector load(Mask lanes, const c10::BFloat16* from) {
    __m128i halves = _mm_setzero_si128();
    if (_mm256_testc_si256(lanes, _mm256_set1_epi32(-1)) != 0)
      halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    else
      std::memcpy(&halves, from, __builtin_popcount(_mm256_movemask_ps(_mm256_castsi256_ps(lanes))) * sizeof(*from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  TRAINER_TILE_INLINE void store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
  TRAINER_TILE_INLINE void store(Mask lanes, float* to, Vector x) { _mm256_maskstore_ps(to, lanes, x); }
  TRAINER_TILE_INLINE Vector multiply(Vector x, Vector y) { return _mm256_mul_ps(x, y); }
  TRAINER_TILE_INLINE Vector multiply_add(Vector x, Vector y, Vector z) { return _mm256_fmadd_ps(x, y, z); }
  /// 8 x 8 elements, of which each register has a row.
  TRAINER_TILE_INLINE void transpose(Vector x[kLanes]) {
    Vector y[kLanes];
    // Within each half of the registers, 4 x 4 elements: first pairs of rows, then pairs of pairs.
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; i += 2) {
      y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
      y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < kLanes; i += 4) {
      x[i] = _mm256_shuffle_ps(y[i], y[i + 2], 0x44);
      x[i + 1] = _mm256_shuffle_ps(y[i], y[i + 2], 0xEE);
      x[i + 2] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0x44);
      x[i + 3] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0xEE);
    }
    // Then the halves.
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      y[i] = _mm256_permute2f128_ps(x[i], x[4 + i], 0x20);
      y[4 + i] = _mm256_permute2f128_ps(x[i], x[4 + i], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
};

TRAINER_TILE_TARGET void transpose_avx2(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                                        int64_t to_stride) {
  constexpr int kLanes = Avx2::kLanes;
  __m256 x[kLanes];
  const __m256i lanes = Avx2::first_lanes(columns);
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; ++i) x[i] = i < rows ? _mm256_maskload_ps(from + i * stride, lanes) : _mm256_setzero_ps();
  Avx2::transpose(x);
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) _mm256_storeu_ps(to + i * to_stride, x[i]);
}

constexpr TileKernels make_avx2_kernels() {
  TileKernels kernels{.lanes = Avx2::kLanes,
                      .vectors = Avx2::kVectors,
                      .multiply = {},
                      .tall = multiply_tile<Avx2, kTallRows, 1>,
                      .by_columns = {},
                      .by_columns_bf16 = {},
                      .transpose = transpose_avx2,
                      .narrow = nullptr};
  add_by_columns<Avx2, float>(kernels.by_columns);
  add_by_columns<Avx2, c10::BFloat16>(kernels.by_columns_bf16);
  add_by_rows<Avx2, 1>(kernels);
  add_by_rows<Avx2, 2>(kernels);
  return kernels;
}

}  // namespace
#endif

const TileKernels* avx2_tile_kernels() {
#if defined(__x86_64__)
  static constexpr TileKernels kKernels = make_avx2_kernels();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &kKernels;
#endif
  return nullptr;
}

}  // namespace trainer::nn
