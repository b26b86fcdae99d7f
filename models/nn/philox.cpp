#include "models/nn/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainer::nn {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr uint32_t kLanes = 16;

uint64_t splitmix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

PhiloxKey philox_key(uint64_t seed, std::string_view what) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : what) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  const uint64_t key = splitmix(splitmix(seed) ^ hash);
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

void philox_words(PhiloxKey key, const uint32_t counter[4], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0, p1 = uint64_t{kMultiplier1} * c2;
    const uint32_t k0 = key.low + round * kWeyl0, k1 = key.high + round * kWeyl1;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

namespace {

void chunk_plain(PhiloxKey key, const uint32_t start[4], uint16_t* out) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t counter[4] = {start[0], start[1], start[2], start[3] + lane};
    uint32_t words[4];
    philox_words(key, counter, words);
    for (int w = 0; w < 4; ++w) {
      out[w * 32 + 2 * lane] = static_cast<uint16_t>(words[w]);
      out[w * 32 + 2 * lane + 1] = static_cast<uint16_t>(words[w] >> 16);
    }
  }
}

#if defined(__x86_64__)
#define TRAINER_AVX2 __attribute__((target("avx2")))

/// Low and high halves of the products of 8 lanes with a 32-bit multiplier.
TRAINER_AVX2 inline void multiply(__m256i c, __m256i multiplier, __m256i& low, __m256i& high) {
  constexpr int kOdd = 0xAA;
  const __m256i even = _mm256_mul_epu32(c, multiplier), odd = _mm256_mul_epu32(_mm256_srli_epi64(c, 32), multiplier);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), kOdd);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, kOdd);
}

/// As chunk_avx512, 8 lanes after the other.
TRAINER_AVX2 void chunk_avx2(PhiloxKey key, const uint32_t start[4], uint16_t* out) {
  const __m256i m0 = _mm256_set1_epi64x(kMultiplier0), m1 = _mm256_set1_epi64x(kMultiplier1);
  for (int half = 0; half < 2; ++half) {
    const __m256i first = _mm256_set1_epi32(static_cast<int>(start[3] + 8U * half));
    __m256i c0 = _mm256_set1_epi32(static_cast<int>(start[0])), c1 = _mm256_set1_epi32(static_cast<int>(start[1]));
    __m256i c2 = _mm256_set1_epi32(static_cast<int>(start[2]));
    __m256i c3 = _mm256_add_epi32(first, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (int round = 0; round < kRounds; ++round) {
      __m256i low0, high0, low1, high1;
      multiply(c0, m0, low0, high0);
      multiply(c2, m1, low1, high1);
      const __m256i k0 = _mm256_set1_epi32(static_cast<int>(key.low + round * kWeyl0));
      const __m256i k1 = _mm256_set1_epi32(static_cast<int>(key.high + round * kWeyl1));
      c0 = _mm256_xor_si256(_mm256_xor_si256(high1, c1), k0);
      c1 = low1;
      c2 = _mm256_xor_si256(_mm256_xor_si256(high0, c3), k1);
      c3 = low0;
    }
    auto* const to = reinterpret_cast<__m256i*>(out) + half;  // of a word, 16 lanes
    _mm256_storeu_si256(to, c0);
    _mm256_storeu_si256(to + 2, c1);
    _mm256_storeu_si256(to + 4, c2);
    _mm256_storeu_si256(to + 6, c3);
  }
}

/// Low and high halves of the 16 products of c with a 32-bit multiplier.
struct Products {
  __m512i low, high;
};
__attribute__((target("avx512f"))) inline Products multiply(__m512i c, __m512i multiplier) {
  constexpr __mmask16 kOdd = 0xAAAA;
  const __m512i even = _mm512_mul_epu32(c, multiplier), odd = _mm512_mul_epu32(_mm512_srli_epi64(c, 32), multiplier);
  return {_mm512_mask_blend_epi32(kOdd, even, _mm512_slli_epi64(odd, 32)),
          _mm512_mask_blend_epi32(kOdd, _mm512_srli_epi64(even, 32), odd)};
}

/// The 16 lanes of a chunk, with one register per word. Read as 16-bit numbers, the words have the layout of a chunk.
__attribute__((target("avx512f"))) void chunk_avx512(PhiloxKey key, const uint32_t start[4], uint16_t* out) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i m0 = _mm512_set1_epi64(kMultiplier0), m1 = _mm512_set1_epi64(kMultiplier1);
  __m512i c0 = _mm512_set1_epi32(static_cast<int>(start[0])), c1 = _mm512_set1_epi32(static_cast<int>(start[1]));
  __m512i c2 = _mm512_set1_epi32(static_cast<int>(start[2]));
  __m512i c3 = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(start[3])), lanes);
  for (int round = 0; round < kRounds; ++round) {
    const Products p0 = multiply(c0, m0), p1 = multiply(c2, m1);
    const __m512i k0 = _mm512_set1_epi32(static_cast<int>(key.low + round * kWeyl0));
    const __m512i k1 = _mm512_set1_epi32(static_cast<int>(key.high + round * kWeyl1));
    c0 = _mm512_xor_si512(_mm512_xor_si512(p1.high, c1), k0);
    c1 = p1.low;
    c2 = _mm512_xor_si512(_mm512_xor_si512(p0.high, c3), k1);
    c3 = p0.low;
  }
  _mm512_storeu_si512(out, c0);
  _mm512_storeu_si512(out + 32, c1);
  _mm512_storeu_si512(out + 64, c2);
  _mm512_storeu_si512(out + 96, c3);
}
#endif

auto* fastest_chunk() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return chunk_avx512;
  if (__builtin_cpu_supports("avx2")) return chunk_avx2;
#endif
  return chunk_plain;
}

}  // namespace

void philox_u16(PhiloxKey key, uint64_t position, uint32_t row, uint32_t first, int64_t chunks, uint16_t* out) {
  static auto* const chunk_of = fastest_chunk();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const uint32_t start[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), row,
                               first + static_cast<uint32_t>(chunk) * kLanes};
    chunk_of(key, start, out + chunk * kPhiloxChunk);
  }
}

}  // namespace trainer::nn
