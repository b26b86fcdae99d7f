#include "models/nn/gemm_avx512.h"

#include <algorithm>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/base/errors.h"

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

#define TRAINER_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))

constexpr int kTileVectors = 4, kLanes = 16;
constexpr int64_t kPanelTerms = 256, kPackedRows = 256 * kTileRows;
static_assert(kPanelColumns == kTileVectors * kLanes);

/// The lanes of a vector of which only the first `count` exist.
__mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xFFFF : (1 << count) - 1);
}

struct Tile {
  Strided a;
  const float* b;
  int64_t b_stride, terms;
  __mmask16 last;  // of each row's last vector
  float alpha, beta;
  float* c;
  int64_t c_stride;
};

template <int rows, int vectors>
TRAINER_AVX512 void multiply_tile(const Tile& tile) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_setzero_ps();
  const float *a = tile.a.data, *b = tile.b;
  for (int64_t t = 0; t < tile.terms; ++t, a += tile.a.columns, b += tile.b_stride) {
    __m512 values[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      values[v] = v + 1 < vectors ? _mm512_loadu_ps(b + v * kLanes) : _mm512_maskz_loadu_ps(tile.last, b + v * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const __m512 factor = _mm512_set1_ps(a[r * tile.a.rows]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = _mm512_fmadd_ps(factor, values[v], sums[r][v]);
    }
  }
  const __m512 alpha = _mm512_set1_ps(tile.alpha), beta = _mm512_set1_ps(tile.beta);
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      float* const to = tile.c + r * tile.c_stride + v * kLanes;
      const __mmask16 lanes = v + 1 < vectors ? __mmask16{0xFFFF} : tile.last;
      __m512 value = _mm512_mul_ps(alpha, sums[r][v]);
      if (tile.beta != 0) value = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(lanes, to), value);
      _mm512_mask_storeu_ps(to, lanes, value);
    }
  }
}

using MultiplyTile = void (*)(const Tile&);
template <int vectors>
constexpr MultiplyTile kByRows[kTileRows] = {multiply_tile<1, vectors>, multiply_tile<2, vectors>,
                                             multiply_tile<3, vectors>, multiply_tile<4, vectors>,
                                             multiply_tile<5, vectors>, multiply_tile<6, vectors>};
constexpr const MultiplyTile* kByVectors[kTileVectors] = {kByRows<1>, kByRows<2>, kByRows<3>, kByRows<4>};

TRAINER_AVX512 inline __m512d as_pairs(__m512 x) {
  return _mm512_castps_pd(x);
}

/// Transposes up to 16 x 16 elements.
TRAINER_AVX512 void transpose_square(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                                     int64_t to_stride) {
  __m512 x[kLanes], y[kLanes];
  const __mmask16 lanes = first_lanes(columns);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    x[i] = i < rows ? _mm512_maskz_loadu_ps(lanes, from + i * stride) : _mm512_setzero_ps();
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
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) _mm512_storeu_ps(to + i * to_stride, x[i]);
}

/// panel[t, c] = b[t, c], for terms x columns of b.
void fill_panel(Strided b, int64_t terms, int64_t columns, float* panel) {
  if (b.columns == 1) {
    for (int64_t t = 0; t < terms; ++t) std::copy_n(b.data + t * b.rows, columns, panel + t * kPanelColumns);
    return;
  }
  for (int64_t c = 0; c < columns; c += kLanes)
    for (int64_t t = 0; t < terms; t += kLanes)
      transpose_square(b.at(t, c).data, b.columns, std::min<int64_t>(kLanes, columns - c),
                       std::min<int64_t>(kLanes, terms - t), panel + t * kPanelColumns + c, kPanelColumns);
}

/// The terms of `a`, as its tiles read them: tile after tile, each term's rows together.
std::vector<float>& packed_rows(Strided a, int64_t m, int64_t terms) {
  thread_local std::vector<float> packed;
  packed.resize((m + kTileRows - 1) / kTileRows * kTileRows * kPanelTerms);
  for (int64_t row = 0; row < m; row += kTileRows) {
    float* to = packed.data() + row * kPanelTerms;
    for (int64_t t = 0; t < terms; ++t, to += kTileRows)
      for (int64_t r = 0; r < std::min<int64_t>(kTileRows, m - row); ++r) to[r] = *a.at(row + r, t).data;
  }
  return packed;
}

}  // namespace

bool has_gemm_avx512() {
  static const bool has = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
  return has;
}

void gemm_avx512(int64_t m, int64_t n, int64_t k, float alpha, Strided a, Strided b, float beta, float* c,
                 int64_t c_stride) {
  const bool packs_a = a.columns != 1 && n > 2 * kPanelColumns;
  if (packs_a && m > kPackedRows) {
    for (int64_t row = 0; row < m; row += kPackedRows)
      gemm_avx512(std::min(kPackedRows, m - row), n, k, alpha, a.at(row, 0), b, beta, c + row * c_stride, c_stride);
    return;
  }
  const bool copies_b = b.columns != 1 || m > kTileRows;
  alignas(64) thread_local float panel[kPanelTerms * kPanelColumns];
  // Without terms, c is still multiplied by beta.
  for (int64_t term = 0; term == 0 || term < k; term += kPanelTerms) {
    const int64_t terms = std::min(kPanelTerms, k - term);
    const float* const packed = packs_a ? packed_rows(a.at(0, term), m, terms).data() : nullptr;
    for (int64_t column = 0; column < n; column += kPanelColumns) {
      const int64_t columns = std::min(kPanelColumns, n - column), vectors = (columns + kLanes - 1) / kLanes;
      const Strided part = b.at(term, column);
      if (copies_b) fill_panel(part, terms, columns, panel);
      Tile tile{.b = copies_b ? panel : part.data,
                .b_stride = copies_b ? kPanelColumns : part.rows,
                .terms = terms,
                .last = first_lanes(columns - (vectors - 1) * kLanes),
                .alpha = alpha,
                .beta = term == 0 ? beta : 1,
                .c_stride = c_stride};
      for (int64_t row = 0; row < m; row += kTileRows) {
        tile.a = packs_a ? Strided{packed + row * kPanelTerms, 1, kTileRows} : a.at(row, term);
        tile.c = c + row * c_stride + column;
        kByVectors[vectors - 1][std::min<int64_t>(kTileRows, m - row) - 1](tile);
      }
    }
  }
}

#else

bool has_gemm_avx512() {
  return false;
}

void gemm_avx512(int64_t, int64_t, int64_t, float, Strided, Strided, float, float*, int64_t) {
  throw InternalError("gemm_avx512 called on a CPU without AVX-512");
}

#endif

}  // namespace trainer::nn
