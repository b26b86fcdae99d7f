#include "models/nn/mask_kernels.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define TRAINER_AVX512 __attribute__((target("avx512f,avx512bw")))
#define TRAINER_AVX2 __attribute__((target("avx2")))
#endif

namespace trainer::nn {
namespace {

template <class Keep>
void pack_each(int64_t n, uint8_t* bits, const Keep& keep) {
  for (int64_t begin = 0; begin < n; begin += 8) {
    uint8_t packed = 0;
    for (int64_t i = begin; i < std::min(n, begin + 8); ++i) packed |= static_cast<uint8_t>(keep(i)) << (i % 8);
    bits[begin / 8] = packed;
  }
}

void pack_plainly(const uint16_t* draws, uint32_t threshold, int64_t n, uint8_t* bits) {
  pack_each(n, bits, [&](int64_t i) { return draws[i] >= threshold; });
}

void expand_plainly(const uint8_t* bits, float kept, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? kept : 0.0F;
}

void positive_plainly(const float* x, int64_t n, uint8_t* bits) {
  pack_each(n, bits, [&](int64_t i) { return x[i] > 0; });
}

#if defined(__x86_64__)
TRAINER_AVX2 void pack_avx2(const uint16_t* draws, uint32_t threshold, int64_t n, uint8_t* bits) {
  const __m256i least = _mm256_set1_epi16(static_cast<int16_t>(threshold));
  for (int64_t i = 0; i < n; i += 32) {
    const auto* const from = reinterpret_cast<const __m256i*>(draws + i);
    const __m256i low = _mm256_loadu_si256(from), high = _mm256_loadu_si256(from + 1);
    // Unsigned, x is at least y where it is the larger of both. Packing takes halves of registers in turns.
    const __m256i kept = _mm256_packs_epi16(_mm256_cmpeq_epi16(_mm256_max_epu16(low, least), low),
                                            _mm256_cmpeq_epi16(_mm256_max_epu16(high, least), high));
    const int mask = _mm256_movemask_epi8(_mm256_permute4x64_epi64(kept, _MM_SHUFFLE(3, 1, 2, 0)));
    std::memcpy(bits + i / 8, &mask, sizeof mask);
  }
}

TRAINER_AVX2 void expand_avx2(const uint8_t* bits, float kept, int64_t n, float* out) {
  const __m256i bit_of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256 value = _mm256_set1_ps(kept);
  for (int64_t i = 0; i < n; i += 8) {
    const __m256i mine = _mm256_and_si256(_mm256_set1_epi32(bits[i / 8]), bit_of_lane);
    _mm256_storeu_ps(out + i, _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(mine, bit_of_lane)), value));
  }
}

TRAINER_AVX2 void positive_avx2(const float* x, int64_t n, uint8_t* bits) {
  for (int64_t i = 0; i < n; i += 8)
    bits[i / 8] = static_cast<uint8_t>(
        _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_setzero_ps(), _CMP_GT_OQ)));
}

TRAINER_AVX512 void pack_avx512(const uint16_t* draws, uint32_t threshold, int64_t n, uint8_t* bits) {
  const __m512i least = _mm512_set1_epi16(static_cast<int16_t>(threshold));
  for (int64_t i = 0; i < n; i += 32) {
    const uint32_t kept = _mm512_cmpge_epu16_mask(_mm512_loadu_si512(draws + i), least);
    std::memcpy(bits + i / 8, &kept, sizeof kept);
  }
}

TRAINER_AVX512 void expand_avx512(const uint8_t* bits, float kept, int64_t n, float* out) {
  const __m512 value = _mm512_set1_ps(kept);
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 mask = 0;
    std::memcpy(&mask, bits + i / 8, sizeof mask);
    _mm512_storeu_ps(out + i, _mm512_maskz_mov_ps(mask, value));
  }
}

TRAINER_AVX512 void positive_avx512(const float* x, int64_t n, uint8_t* bits) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), _mm512_setzero_ps(), _CMP_GT_OQ);
    std::memcpy(bits + i / 8, &mask, sizeof mask);
  }
}
#endif

}  // namespace

const MaskKernels& plain_mask_kernels() {
  static constexpr MaskKernels kPlain{8, pack_plainly, expand_plainly, positive_plainly};
  return kPlain;
}

const MaskKernels* avx2_mask_kernels() {
#if defined(__x86_64__)
  static constexpr MaskKernels kAvx2{8, pack_avx2, expand_avx2, positive_avx2};
  if (__builtin_cpu_supports("avx2")) return &kAvx2;
#endif
  return nullptr;
}

const MaskKernels* avx512_mask_kernels() {
#if defined(__x86_64__)
  static constexpr MaskKernels kAvx512{16, pack_avx512, expand_avx512, positive_avx512};
  if (__builtin_cpu_supports("avx512bw")) return &kAvx512;
#endif
  return nullptr;
}

const MaskKernels& mask_kernels() {
  static const MaskKernels& fastest = avx512_mask_kernels() ? *avx512_mask_kernels()
                                      : avx2_mask_kernels() ? *avx2_mask_kernels()
                                                            : plain_mask_kernels();
  return fastest;
}

}  // namespace trainer::nn
