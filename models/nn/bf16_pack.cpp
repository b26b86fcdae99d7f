#include "models/nn/bf16_kernels.h"

#include <array>

#include "models/nn/avx512.h"

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

struct alignas(64) Square {
  float rows[kLanes][kLanes];
};

/// to[c, r] = from[r, c], 16 x 16; the rows of `from` are `stride` bytes apart.
TRAINER_AVX512 void transpose(const void* from, int64_t stride, float* to) {
  __m512 x[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = _mm512_loadu_ps(static_cast<const char*>(from) + i * stride);
  transpose_rows(x);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) _mm512_store_ps(to + i * kLanes, x[i]);
}

// --- fp32 in parts

/// x as a sum of bf16 numbers, in the upper halves of `out`. Two parts have 16 of its 24 bits, three have all of them.
/// Infinities and NaN are in the first part alone.
template <int parts>
TRAINER_AVX512_INLINE void split(__m512 x, __m512i out[parts]) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)), half = _mm512_set1_epi32(0x8000);
  const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
  // Rounding what is larger would make it infinite.
  const __mmask16 rounds = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(0x7F7F8000)),
                  finite = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(0x7F800000));
  __m512i rest = _mm512_castps_si512(x);
#pragma GCC unroll 3
  for (int part = 0; part < parts; ++part) {
    out[part] = part == kMostParts - 1
                    ? rest  // has no more than the bits of a part
                    : _mm512_and_si512(_mm512_mask_add_epi32(rest, part == 0 ? rounds : 0xFFFF, rest, half), upper);
    if (part + 1 < parts)
      rest =
          _mm512_castps_si512(_mm512_maskz_sub_ps(finite, _mm512_castsi512_ps(rest), _mm512_castsi512_ps(out[part])));
  }
}

/// A row of each part's tile, for b: in each 32 bits, a number of `x` and, above it, one of `y`.
template <int parts>
TRAINER_AVX512_INLINE void pack_pair(__m512 x, __m512 y, char* to) {
  constexpr int kUpperOfSecond = 0xCA;  // a bit of the second where the first has one, else of the third
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  __m512i low[parts], high[parts];
  split<parts>(x, low);
  split<parts>(y, high);
#pragma GCC unroll 3
  for (int part = 0; part < parts; ++part)
    _mm512_store_si512(to + part * kBf16TileBytes,
                       _mm512_ternarylogic_epi32(upper, high[part], _mm512_srli_epi32(low[part], 16), kUpperOfSecond));
}

alignas(64) constexpr std::array<uint16_t, 32> kUpperHalves = [] {
  std::array<uint16_t, 32> at{};
  for (uint16_t i = 0; i < 32; ++i) at[i] = 2 * i + 1;
  return at;
}();

/// The same for a: the numbers of `x`, then those of `y`.
template <int parts>
TRAINER_AVX512_INLINE void pack_line(__m512 x, __m512 y, char* to) {
  const __m512i upper_halves = _mm512_load_si512(kUpperHalves.data());
  __m512i first[parts], second[parts];
  split<parts>(x, first);
  split<parts>(y, second);
#pragma GCC unroll 3
  for (int part = 0; part < parts; ++part)
    _mm512_store_si512(to + part * kBf16TileBytes, _mm512_permutex2var_epi16(first[part], upper_halves, second[part]));
}

/// square[r, c] = from[r * stride + c], for the rows and columns that there are, else 0.
TRAINER_AVX512 void copy(const float* from, int64_t stride, int64_t rows, int64_t columns, Square& square) {
  const __mmask16 lanes = first_lanes(columns);
  for (int64_t r = 0; r < kLanes; ++r)
    _mm512_store_ps(square.rows[r], r < rows ? _mm512_maskz_loadu_ps(lanes, from + r * stride) : _mm512_setzero_ps());
}

/// square = 16 rows of floats from `from` on, for the rows and columns that there are, else 0.
TRAINER_AVX512 void fill(const float* from, int64_t stride, int64_t rows, int64_t columns, bool transposes,
                         Square& square) {
  const bool whole = rows == kLanes && columns == kLanes;
  if (transposes && whole) return transpose(from, stride * static_cast<int64_t>(sizeof(float)), square.rows[0]);
  Square part;
  copy(from, stride, rows, columns, transposes ? part : square);
  if (transposes) transpose(part.rows[0], sizeof(part.rows[0]), square.rows[0]);
}

template <int parts>
TRAINER_AVX512 void pack_lines(const float* x, const float* y, int64_t stride, char* to) {
  for (int64_t r = 0; r < kLanes; ++r, x += stride, y += stride, to += kLanes * sizeof(float))
    pack_line<parts>(_mm512_loadu_ps(x), _mm512_loadu_ps(y), to);
}
template <int parts>
TRAINER_AVX512 void pack_pairs(const float* x, int64_t stride, char* to) {
  for (int64_t r = 0; r < kLanes; ++r, x += 2 * stride, to += kLanes * sizeof(float))
    pack_pair<parts>(_mm512_loadu_ps(x), _mm512_loadu_ps(x + stride), to);
}

template <int parts>
TRAINER_AVX512 void pack(const Bf16Block<float>& block, Side side, char* to) {
  const bool terms_are_columns = block.term_stride == 1 && (block.line_stride != 1 || side == Side::kA);
  const bool transposes = terms_are_columns != (side == Side::kA);
  const int64_t stride = terms_are_columns ? block.line_stride : block.term_stride;
  const float* const second_half = block.data + kLanes * block.term_stride;
  if (!transposes && block.lines == kBf16Lines && block.terms == kBf16Terms)
    return side == Side::kA ? pack_lines<parts>(block.data, second_half, stride, to)
                            : pack_pairs<parts>(block.data, stride, to);
  const int64_t first_terms = block.terms < kLanes ? block.terms : kLanes, second_terms = block.terms - first_terms;
  Square halves[2];
  if (terms_are_columns) {
    fill(block.data, stride, block.lines, first_terms, transposes, halves[0]);
    fill(second_half, stride, block.lines, second_terms, transposes, halves[1]);
  } else {
    fill(block.data, stride, first_terms, block.lines, transposes, halves[0]);
    fill(second_half, stride, second_terms, block.lines, transposes, halves[1]);
  }
  if (side == Side::kA)
    pack_lines<parts>(halves[0].rows[0], halves[1].rows[0], kLanes, to);
  else
    pack_pairs<parts>(halves[0].rows[0], kLanes, to);
}

// --- bf16

/// A row of a tile, from two terms of 16 lines.
TRAINER_AVX512_INLINE __m512i interleaved(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/// Term t of all lines.
TRAINER_AVX512_INLINE __m256i term_of(const Bf16Block<c10::BFloat16>& block, int64_t t) {
  return t < block.terms ? _mm256_maskz_loadu_epi16(first_lanes(block.lines), block.data + t * block.term_stride)
                         : _mm256_setzero_si256();
}

TRAINER_AVX512 void pack_bf16(const Bf16Block<c10::BFloat16>& block, Side side, char* to) {
  const bool terms_are_columns = block.term_stride == 1 && (block.line_stride != 1 || side == Side::kA);
  const bool transposes = terms_are_columns != (side == Side::kA);
  float* const tile = reinterpret_cast<float*>(to);
  const int64_t stride = block.line_stride * static_cast<int64_t>(sizeof(c10::BFloat16));
  if (terms_are_columns && transposes && block.lines == kBf16Lines && block.terms == kBf16Terms)
    return transpose(block.data, stride, tile);
  Square part;
  float* const pairs = transposes ? part.rows[0] : tile;
  if (terms_are_columns) {
    const auto terms = static_cast<__mmask32>(block.terms == kBf16Terms ? ~0U : (1U << block.terms) - 1);
    for (int64_t line = 0; line < kLanes; ++line)
      _mm512_store_si512(pairs + line * kLanes,
                         line < block.lines ? _mm512_maskz_loadu_epi16(terms, block.data + line * block.line_stride)
                                            : _mm512_setzero_si512());
  } else {
    for (int64_t pair = 0; pair < kLanes; ++pair)
      _mm512_store_si512(pairs + pair * kLanes, interleaved(term_of(block, 2 * pair), term_of(block, 2 * pair + 1)));
  }
  if (transposes) transpose(pairs, sizeof(part.rows[0]), tile);
}

}  // namespace

void bf16_pack(const Bf16Block<float>& block, Side side, int parts, char* to) {
  switch (parts) {
    case 1:
      return pack<1>(block, side, to);
    case 2:
      return pack<2>(block, side, to);
    default:
      return pack<3>(block, side, to);
  }
}

void bf16_pack(const Bf16Block<c10::BFloat16>& block, Side side, int, char* to) {
  pack_bf16(block, side, to);
}

bool has_bf16_pack() {
  return has_avx512();
}
#else
void bf16_pack(const Bf16Block<float>&, Side, int, char*) {}
void bf16_pack(const Bf16Block<c10::BFloat16>&, Side, int, char*) {}
bool has_bf16_pack() {
  return false;
}
#endif

}  // namespace trainer::nn
