#include "models/nn/tile_kernels.h"

#include "models/nn/avx512.h"

#if defined(__x86_64__)
#define TRAINER_TILE_TARGET TRAINER_AVX512
#include "models/nn/multiply_tile.h"
#endif

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

struct Avx512 {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = nn::kLanes, kVectors = 4;

  TRAINER_AVX512_INLINE Mask first_lanes(int64_t count) { return nn::first_lanes(count); }
  TRAINER_AVX512_INLINE Vector broadcast(float x) { return _mm512_set1_ps(x); }
  TRAINER_AVX512_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
  TRAINER_AVX512_INLINE Vector load(Mask lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
  TRAINER_AVX512_INLINE Vector load(Mask lanes, const c10::BFloat16* from) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16));
  }
  TRAINER_AVX512_INLINE void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
  TRAINER_AVX512_INLINE void store(Mask lanes, float* to, Vector x) { _mm512_mask_storeu_ps(to, lanes, x); }
  TRAINER_AVX512_INLINE Vector multiply(Vector x, Vector y) { return _mm512_mul_ps(x, y); }
  TRAINER_AVX512_INLINE Vector multiply_add(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }
  TRAINER_AVX512_INLINE void transpose(Vector x[kLanes]) { transpose_rows(x); }
};

TRAINER_AVX512 void transpose_avx512(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                                     int64_t to_stride) {
  __m512 x[kLanes];
  const __mmask16 lanes = first_lanes(columns);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    x[i] = i < rows ? _mm512_maskz_loadu_ps(lanes, from + i * stride) : _mm512_setzero_ps();
  transpose_rows(x);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) _mm512_storeu_ps(to + i * to_stride, x[i]);
}

TileKernels make_avx512_kernels() {
  TileKernels kernels{.lanes = Avx512::kLanes,
                      .vectors = Avx512::kVectors,
                      .multiply = {},
                      .tall = multiply_tile<Avx512, kTallRows, 1>,
                      .by_columns = {},
                      .by_columns_bf16 = {},
                      .transpose = transpose_avx512,
                      .narrow = avx2_tile_kernels()};
  add_by_columns<Avx512, float>(kernels.by_columns);
  add_by_columns<Avx512, c10::BFloat16>(kernels.by_columns_bf16);
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
  static const TileKernels kernels = make_avx512_kernels();
  if (has_avx512()) return &kernels;
#endif
  return nullptr;
}

}  // namespace trainer::nn
