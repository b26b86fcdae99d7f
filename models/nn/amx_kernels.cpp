#include "models/nn/amx_kernels.h"

#include <array>

#include <ATen/cpu/Utils.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TRAINER_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,amx-tile,amx-bf16")))
#define TRAINER_AMX_INLINE TRAINER_AMX __attribute__((always_inline)) static inline
#endif

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

constexpr int64_t kLanes = 16;  // of 32 bits

struct alignas(64) Square {
  float rows[kLanes][kLanes];
};

TRAINER_AMX_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xFFFF : (1 << count) - 1);
}

TRAINER_AMX_INLINE __m512d as_pairs(__m512 x) {
  return _mm512_castps_pd(x);
}

/// to[c, r] = from[r, c], 16 x 16; the rows of `from` are `stride` bytes apart.
TRAINER_AMX void transpose(const void* from, int64_t stride, float* to) {
  __m512 x[kLanes], y[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = _mm512_loadu_ps(static_cast<const char*>(from) + i * stride);
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
  for (int i = 0; i < kLanes; ++i) _mm512_store_ps(to + i * kLanes, x[i]);
}

// --- fp32 in parts

/// x as a sum of bf16 numbers, in the upper halves of `out`. Two parts have 16 of its 24 bits, three have all of them.
/// Infinities and NaN are in the first part alone.
template <int parts>
TRAINER_AMX_INLINE void split(__m512 x, __m512i out[parts]) {
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
TRAINER_AMX_INLINE void pack_pair(__m512 x, __m512 y, char* to) {
  constexpr int kUpperOfSecond = 0xCA;  // a bit of the second where the first has one, else of the third
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  __m512i low[parts], high[parts];
  split<parts>(x, low);
  split<parts>(y, high);
#pragma GCC unroll 3
  for (int part = 0; part < parts; ++part)
    _mm512_store_si512(to + part * kAmxTileBytes,
                       _mm512_ternarylogic_epi32(upper, high[part], _mm512_srli_epi32(low[part], 16), kUpperOfSecond));
}

alignas(64) constexpr std::array<uint16_t, 32> kUpperHalves = [] {
  std::array<uint16_t, 32> at{};
  for (uint16_t i = 0; i < 32; ++i) at[i] = 2 * i + 1;
  return at;
}();

/// The same for a: the numbers of `x`, then those of `y`.
template <int parts>
TRAINER_AMX_INLINE void pack_line(__m512 x, __m512 y, char* to) {
  const __m512i upper_halves = _mm512_load_si512(kUpperHalves.data());
  __m512i first[parts], second[parts];
  split<parts>(x, first);
  split<parts>(y, second);
#pragma GCC unroll 3
  for (int part = 0; part < parts; ++part)
    _mm512_store_si512(to + part * kAmxTileBytes, _mm512_permutex2var_epi16(first[part], upper_halves, second[part]));
}

/// square[r, c] = from[r * stride + c], for the rows and columns that there are, else 0.
TRAINER_AMX void copy(const float* from, int64_t stride, int64_t rows, int64_t columns, Square& square) {
  const __mmask16 lanes = first_lanes(columns);
  for (int64_t r = 0; r < kLanes; ++r)
    _mm512_store_ps(square.rows[r], r < rows ? _mm512_maskz_loadu_ps(lanes, from + r * stride) : _mm512_setzero_ps());
}

/// square = 16 rows of floats from `from` on, for the rows and columns that there are, else 0.
TRAINER_AMX void fill(const float* from, int64_t stride, int64_t rows, int64_t columns, bool transposes,
                      Square& square) {
  const bool whole = rows == kLanes && columns == kLanes;
  if (transposes && whole) return transpose(from, stride * static_cast<int64_t>(sizeof(float)), square.rows[0]);
  Square part;
  copy(from, stride, rows, columns, transposes ? part : square);
  if (transposes) transpose(part.rows[0], sizeof(part.rows[0]), square.rows[0]);
}

template <int parts>
TRAINER_AMX void pack_lines(const float* x, const float* y, int64_t stride, char* to) {
  for (int64_t r = 0; r < kLanes; ++r, x += stride, y += stride, to += kLanes * sizeof(float))
    pack_line<parts>(_mm512_loadu_ps(x), _mm512_loadu_ps(y), to);
}
template <int parts>
TRAINER_AMX void pack_pairs(const float* x, int64_t stride, char* to) {
  for (int64_t r = 0; r < kLanes; ++r, x += 2 * stride, to += kLanes * sizeof(float))
    pack_pair<parts>(_mm512_loadu_ps(x), _mm512_loadu_ps(x + stride), to);
}

template <int parts>
TRAINER_AMX void pack(const AmxBlock<float>& block, Side side, char* to) {
  const bool terms_are_columns = block.term_stride == 1 && (block.line_stride != 1 || side == Side::kA);
  const bool transposes = terms_are_columns != (side == Side::kA);
  const int64_t stride = terms_are_columns ? block.line_stride : block.term_stride;
  const float* const second_half = block.data + kLanes * block.term_stride;
  if (!transposes && block.lines == kAmxLines && block.terms == kAmxTerms)
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
TRAINER_AMX_INLINE __m512i interleaved(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/// Term t of all lines.
TRAINER_AMX_INLINE __m256i term_of(const AmxBlock<c10::BFloat16>& block, int64_t t) {
  return t < block.terms ? _mm256_maskz_loadu_epi16(first_lanes(block.lines), block.data + t * block.term_stride)
                         : _mm256_setzero_si256();
}

TRAINER_AMX void pack_bf16(const AmxBlock<c10::BFloat16>& block, Side side, char* to) {
  const bool terms_are_columns = block.term_stride == 1 && (block.line_stride != 1 || side == Side::kA);
  const bool transposes = terms_are_columns != (side == Side::kA);
  float* const tile = reinterpret_cast<float*>(to);
  const int64_t stride = block.line_stride * static_cast<int64_t>(sizeof(c10::BFloat16));
  if (terms_are_columns && transposes && block.lines == kAmxLines && block.terms == kAmxTerms)
    return transpose(block.data, stride, tile);
  Square part;
  float* const pairs = transposes ? part.rows[0] : tile;
  if (terms_are_columns) {
    const auto terms = static_cast<__mmask32>(block.terms == kAmxTerms ? ~0U : (1U << block.terms) - 1);
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

// --- Products

// The intrinsics take a register's number only where it is written: sums are in 0 to 3, tiles of a in 4 and 5, of b in
// 6 and 7. They don't say that they read memory, hence the barriers in multiply().
constexpr int64_t kTileStride = 64, kSumsStride = kAmxWidth * sizeof(float);

template <int rows>
TRAINER_AMX_INLINE void load_a(const char* a, int64_t row_bytes, int part) {
  _tile_loadd(4, a + part * kAmxTileBytes, kTileStride);
  if constexpr (rows == 2) _tile_loadd(5, a + row_bytes + part * kAmxTileBytes, kTileStride);
}
template <int columns>
TRAINER_AMX_INLINE void load_b(const char* b, int64_t column_bytes, int part) {
  _tile_loadd(6, b + part * kAmxTileBytes, kTileStride);
  if constexpr (columns == 2) _tile_loadd(7, b + column_bytes + part * kAmxTileBytes, kTileStride);
}
template <int rows, int columns>
TRAINER_AMX_INLINE void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (columns == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (rows == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (rows == 2 && columns == 2) _tile_dpbf16ps(3, 5, 7);
}

/// The products of parts that matter, of n parts those with i + j < n. Each differs from the one before in one operand.
struct PartProduct {
  int a, b;
};
template <int parts>
constexpr auto kPartProducts = std::array<PartProduct, 1>{{{0, 0}}};
template <>
constexpr auto kPartProducts<2> = std::array<PartProduct, 3>{{{0, 1}, {0, 0}, {1, 0}}};
template <>
constexpr auto kPartProducts<3> = std::array<PartProduct, 6>{{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}};

template <int parts, int rows, int columns, size_t index = 0>
TRAINER_AMX_INLINE void add_part_products(const char* a, const char* b, int64_t bytes) {
  constexpr const auto& kAll = kPartProducts<parts>;
  if constexpr (index < kAll.size()) {
    constexpr PartProduct kThis = kAll[index];
    constexpr PartProduct kLast = index > 0 ? kAll[index - (index > 0)] : PartProduct{-1, -1};
    if constexpr (kThis.a != kLast.a) load_a<rows>(a, bytes, kThis.a);
    if constexpr (kThis.b != kLast.b) load_b<columns>(b, bytes, kThis.b);
    add_products<rows, columns>();
    add_part_products<parts, rows, columns, index + 1>(a, b, bytes);
  }
}

template <int parts, int rows, int columns>
TRAINER_AMX void multiply(const AmxTiles& tiles, float* sums) {
  const int64_t bytes = tiles.steps * parts * kAmxTileBytes;  // of a row or a column of tiles
  const char *a = tiles.a, *b = tiles.b;
  asm volatile("" ::: "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < tiles.steps; ++step, a += parts * kAmxTileBytes, b += parts * kAmxTileBytes)
    add_part_products<parts, rows, columns>(a, b, bytes);
  _tile_stored(0, sums, kSumsStride);
  if constexpr (columns == 2) _tile_stored(1, sums + kLanes, kSumsStride);
  if constexpr (rows == 2) _tile_stored(2, sums + kLanes * kAmxWidth, kSumsStride);
  if constexpr (rows == 2 && columns == 2) _tile_stored(3, sums + kLanes * kAmxWidth + kLanes, kSumsStride);
  asm volatile("" ::: "memory");
}

template <int parts>
constexpr AmxMultiply* kMultiply[2][2] = {{multiply<parts, 1, 1>, multiply<parts, 1, 2>},
                                          {multiply<parts, 2, 1>, multiply<parts, 2, 2>}};

TRAINER_AMX_INLINE __m512 load(__mmask16 lanes, const float* from) {
  return _mm512_maskz_loadu_ps(lanes, from);
}
TRAINER_AMX_INLINE __m512 load(__mmask16 lanes, const c10::BFloat16* from) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16));
}
TRAINER_AMX_INLINE void store(__mmask16 lanes, float* to, __m512 x) {
  _mm512_mask_storeu_ps(to, lanes, x);
}
/// As rounded<BFloat16>().
TRAINER_AMX_INLINE void store(__mmask16 lanes, c10::BFloat16* to, __m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  _mm256_mask_storeu_epi16(to, lanes,
                           _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(half, nan, _mm512_set1_epi32(0x7FC0))));
}

template <class T>
TRAINER_AMX void store_rows(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha,
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

/// What LDTILECFG reads: all eight tiles have 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

TRAINER_AMX void load_configuration() {
  const TileConfiguration configuration;
  asm volatile("" ::: "memory");
  _tile_loadconfig(&configuration);
}
TRAINER_AMX void release_tiles() {
  _tile_release();
}

}  // namespace

void amx_pack(const AmxBlock<float>& block, Side side, int parts, char* to) {
  switch (parts) {
    case 1:
      return pack<1>(block, side, to);
    case 2:
      return pack<2>(block, side, to);
    default:
      return pack<3>(block, side, to);
  }
}

void amx_pack(const AmxBlock<c10::BFloat16>& block, Side side, int, char* to) {
  pack_bf16(block, side, to);
}

void amx_multiply(const AmxTiles& tiles, float* sums) {
  const auto& by_size = tiles.parts == 1 ? kMultiply<1> : tiles.parts == 2 ? kMultiply<2> : kMultiply<3>;
  by_size[tiles.rows - 1][tiles.columns - 1](tiles, sums);
}

void amx_store(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha, float beta, float* c,
               int64_t c_stride) {
  store_rows(sums, sums_stride, rows, columns, alpha, beta, c, c_stride);
}

void amx_store(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha, float beta,
               c10::BFloat16* c, int64_t c_stride) {
  store_rows(sums, sums_stride, rows, columns, alpha, beta, c, c_stride);
}

DenormalsAreZero::DenormalsAreZero() : control_(_mm_getcsr()) {
  constexpr unsigned int kReadAndWritten = 0x8040;
  _mm_setcsr(control_ | kReadAndWritten);
}
DenormalsAreZero::~DenormalsAreZero() {
  _mm_setcsr(control_);
}

AmxTilesInUse::AmxTilesInUse() {
  if (has_amx()) load_configuration();
}
AmxTilesInUse::~AmxTilesInUse() {
  if (has_amx()) release_tiles();
}

bool has_amx_pack() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool has_amx() {
  static const bool has =
      has_amx_pack() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") && at::cpu::init_amx();
  return has;
}
#else
void amx_pack(const AmxBlock<float>&, Side, int, char*) {}
void amx_pack(const AmxBlock<c10::BFloat16>&, Side, int, char*) {}
void amx_multiply(const AmxTiles&, float*) {}
void amx_store(const float*, int64_t, int64_t, int64_t, float, float, float*, int64_t) {}
void amx_store(const float*, int64_t, int64_t, int64_t, float, float, c10::BFloat16*, int64_t) {}
DenormalsAreZero::DenormalsAreZero() = default;
DenormalsAreZero::~DenormalsAreZero() = default;
AmxTilesInUse::AmxTilesInUse() = default;
AmxTilesInUse::~AmxTilesInUse() = default;
bool has_amx_pack() {
  return false;
}
bool has_amx() {
  return false;
}
#endif

}  // namespace trainer::nn
