#include "models/nn/bf16_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TRAINER_DOTS __attribute__((target("avx512f,avx512bf16")))
#define TRAINER_DOTS_INLINE TRAINER_DOTS __attribute__((always_inline)) static inline
#endif

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

// A pair of terms has 32 bits. A line of a tile of `a` has the pairs of a row, a line of `b` one pair of each column.
constexpr int64_t kPairs = kBf16Terms / 2, kPairBytes = 4, kLineBytes = kPairs * kPairBytes;
constexpr int kRows = 8;  // whose sums stay in registers

TRAINER_DOTS_INLINE __m512bh pair_everywhere(const char* at) {
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(*reinterpret_cast<const int*>(at)));
}
TRAINER_DOTS_INLINE __m512bh pairs_of_columns(const char* at) {
  return reinterpret_cast<__m512bh>(_mm512_load_si512(at));
}

/// The products of kRows rows, which begin at `a`.
template <int columns>
TRAINER_DOTS void multiply_rows(const Bf16Tiles& tiles, const char* a, Bf16Ahead& ahead, float* sums) {
  const int64_t column_bytes = tiles.steps * kBf16TileBytes;
  __m512 sum[kRows][columns];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int c = 0; c < columns; ++c) sum[r][c] = _mm512_setzero_ps();
  const char* b = tiles.b;
  for (int64_t step = 0; step < tiles.steps; ++step, a += kBf16TileBytes - kLineBytes) {
    ahead.step();
    for (int64_t pair = 0; pair < kPairs; ++pair, a += kPairBytes, b += kLineBytes) {
      __m512bh values[columns];
#pragma GCC unroll 2
      for (int c = 0; c < columns; ++c) values[c] = pairs_of_columns(b + c * column_bytes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512bh factors = pair_everywhere(a + r * kLineBytes);
#pragma GCC unroll 2
        for (int c = 0; c < columns; ++c) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], factors, values[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int c = 0; c < columns; ++c) _mm512_store_ps(sums + r * kBf16Width + c * kBf16Lines, sum[r][c]);
}

}  // namespace

void dot_multiply(const Bf16Tiles& tiles, float* sums) {
  const auto multiply = tiles.columns == 1 ? multiply_rows<1> : multiply_rows<2>;
  Bf16Ahead nothing;
  for (int64_t row = 0; row < tiles.rows * kBf16Lines; row += kRows)
    multiply(tiles, tiles.a + row / kBf16Lines * tiles.steps * kBf16TileBytes + row % kBf16Lines * kLineBytes,
             row == 0 ? *tiles.ahead : nothing, sums + row * kBf16Width);
}

bool has_bf16_dots() {
  static const bool has = has_bf16_pack() && __builtin_cpu_supports("avx512bf16");
  return has;
}
#else
void dot_multiply(const Bf16Tiles&, float*) {}
bool has_bf16_dots() {
  return false;
}
#endif

}  // namespace trainer::nn
