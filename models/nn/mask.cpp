#include "models/nn/mask.h"

#include <ATen/ops/empty.h>

#include "models/nn/kernel.h"
#include "models/nn/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TRAINER_AVX512 __attribute__((target("avx512f,avx512bw")))
#endif

namespace trainer::nn {
namespace {

#if defined(__x86_64__)
bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512bw") != 0;
  return has;
}

TRAINER_AVX512 void pack_draws_avx512(const uint16_t* draws, uint32_t threshold, int64_t n, uint8_t* bits) {
  const __m512i least = _mm512_set1_epi16(static_cast<int16_t>(threshold));
  for (int64_t i = 0; i < n; i += 32) {
    const uint32_t kept = _mm512_cmpge_epu16_mask(_mm512_loadu_si512(draws + i), least);
    __builtin_memcpy(bits + i / 8, &kept, sizeof kept);
  }
}

TRAINER_AVX512 void expand_avx512(const uint8_t* bits, float kept, int64_t whole, float* out) {
  const __m512 value = _mm512_set1_ps(kept);
  for (int64_t i = 0; i < whole; i += 16) {
    __mmask16 mask = 0;
    __builtin_memcpy(&mask, bits + i / 8, sizeof mask);
    _mm512_storeu_ps(out + i, _mm512_maskz_mov_ps(mask, value));
  }
}

TRAINER_AVX512 void positive_avx512(const float* x, int64_t whole, uint8_t* bits) {
  for (int64_t i = 0; i < whole; i += 16) {
    const __mmask16 mask = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), _mm512_setzero_ps(), _CMP_GT_OQ);
    __builtin_memcpy(bits + i / 8, &mask, sizeof mask);
  }
}
#endif

/// Number of leading elements that the vector code handles; scalar loops handle the rest.
int64_t vector_part([[maybe_unused]] int64_t n) {
#if defined(__x86_64__)
  if (has_avx512()) return n / 16 * 16;
#endif
  return 0;
}

template <class Keep>
void pack(int64_t begin, int64_t n, uint8_t* bits, const Keep& keep) {
  for (int64_t byte = begin / 8; byte * 8 < n; ++byte) {
    uint8_t packed = 0;
    for (int64_t i = byte * 8; i < std::min(n, byte * 8 + 8); ++i) packed |= static_cast<uint8_t>(keep(i)) << (i % 8);
    bits[byte] = packed;
  }
}

}  // namespace

void draw_mask_row(PhiloxKey key, uint32_t threshold, int64_t position, int64_t token, int64_t head, int64_t first,
                   int64_t width, uint8_t* bits) {
  constexpr int64_t kDraws = 8 * kPhiloxChunk;
  uint16_t drawn[kDraws + kPhiloxChunk];
  const int64_t skipped = first % kPhiloxChunk;  // draws of the first chunk
  const uint16_t* const draws = drawn + skipped;
  for (int64_t begin = 0; begin < width; begin += kDraws) {
    const int64_t n = std::min(kDraws, mask_bytes(width - begin) * 8);
    const auto counter =
        (static_cast<uint32_t>(head) << 20) + static_cast<uint32_t>((first + begin) / kPhiloxChunk) * 16;
    philox_u16(key, static_cast<uint64_t>(position), static_cast<uint32_t>(token), counter,
               n / kPhiloxChunk + (skipped > 0 ? 1 : 0), drawn);
#if defined(__x86_64__)
    if (has_avx512()) {
      pack_draws_avx512(draws, threshold, n, bits + begin / 8);
      continue;
    }
#endif
    pack(0, n, bits + begin / 8, [&](int64_t i) { return draws[i] >= threshold; });
  }
}

at::Tensor draw_mask(PhiloxKey key, uint32_t threshold, const Layout& layout, int64_t first_element, int64_t width,
                     at::Device device) {
  const int64_t bytes = mask_bytes(width);
  at::Tensor mask = at::empty({layout.tokens(), bytes}, at::TensorOptions(at::kByte).device(device));
  auto* const bits = mask.data_ptr<uint8_t>();
  parallel_for(0, rows_to_compute(mask, layout.samples()), 1, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s)
      for (int64_t token = 0; token < layout.spans[s].length; ++token)
        draw_mask_row(key, threshold, layout.sample_index[s], layout.start(s) + token, 0, first_element, width,
                      bits + (layout.spans[s].begin + token) * bytes);
  });
  return mask;
}

void expand_mask_row(const uint8_t* bits, float kept, int64_t n, float* out) {
  const int64_t whole = vector_part(n);
#if defined(__x86_64__)
  if (whole > 0) expand_avx512(bits, kept, whole, out);
#endif
  for (int64_t i = whole; i < n; ++i) out[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? kept : 0.0F;
}

void positive_mask_row(const float* x, int64_t n, uint8_t* bits) {
  const int64_t whole = vector_part(n);
#if defined(__x86_64__)
  if (whole > 0) positive_avx512(x, whole, bits);
#endif
  pack(whole, n, bits, [&](int64_t i) { return x[i] > 0; });
}

}  // namespace trainer::nn
