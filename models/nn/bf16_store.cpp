#include "models/nn/bf16_kernels.h"

#include "models/nn/avx512.h"

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

TRAINER_AVX512_INLINE __m512 load(__mmask16 lanes, const float* from) {
  return _mm512_maskz_loadu_ps(lanes, from);
}
TRAINER_AVX512_INLINE __m512 load(__mmask16 lanes, const c10::BFloat16* from) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16));
}
TRAINER_AVX512_INLINE void store(__mmask16 lanes, float* to, __m512 x) {
  _mm512_mask_storeu_ps(to, lanes, x);
}
/// As rounded<BFloat16>().
TRAINER_AVX512_INLINE void store(__mmask16 lanes, c10::BFloat16* to, __m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  _mm256_mask_storeu_epi16(to, lanes,
                           _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(half, nan, _mm512_set1_epi32(0x7FC0))));
}

template <class T>
TRAINER_AVX512 void store_rows(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha,
                               float beta, T* c, int64_t c_stride) {
  const __m512 factor = _mm512_set1_ps(alpha), kept = _mm512_set1_ps(beta);
  for (int64_t r = 0; r < rows; ++r, sums += sums_stride, c += c_stride)
    for (int64_t column = 0; column < columns; column += kLanes) {
      const __mmask16 lanes = first_lanes(columns - column);
      __m512 x = _mm512_mul_ps(factor, load(lanes, sums + column));
      if (beta != 0) x = _mm512_fmadd_ps(kept, load(lanes, c + column), x);
      store(lanes, c + column, x);
    }
}

}  // namespace

void bf16_store(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha, float beta,
                float* c, int64_t c_stride) {
  store_rows(sums, sums_stride, rows, columns, alpha, beta, c, c_stride);
}

void bf16_store(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha, float beta,
                c10::BFloat16* c, int64_t c_stride) {
  store_rows(sums, sums_stride, rows, columns, alpha, beta, c, c_stride);
}

#else
void bf16_store(const float*, int64_t, int64_t, int64_t, float, float, float*, int64_t) {}
void bf16_store(const float*, int64_t, int64_t, int64_t, float, float, c10::BFloat16*, int64_t) {}
#endif

}  // namespace trainer::nn
