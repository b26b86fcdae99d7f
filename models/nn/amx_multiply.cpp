#include "models/nn/bf16_kernels.h"

#include <array>

#include <ATen/cpu/Utils.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TRAINER_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))
#define TRAINER_AMX_INLINE TRAINER_AMX __attribute__((always_inline)) static inline
#endif

namespace trainer::nn {

#if defined(__x86_64__)
namespace {

// The intrinsics take a register's number only where it is written: sums are in 0 to 3, tiles of a in 4 and 5, of b in
// 6 and 7. They don't say that they read memory, hence the barriers in multiply().
constexpr int64_t kLanes = 16, kTileStride = 64, kSumsStride = kBf16Width * sizeof(float);

template <int rows>
TRAINER_AMX_INLINE void load_a(const char* a, int64_t row_bytes, int part) {
  _tile_loadd(4, a + part * kBf16TileBytes, kTileStride);
  if constexpr (rows == 2) _tile_loadd(5, a + row_bytes + part * kBf16TileBytes, kTileStride);
}
template <int columns>
TRAINER_AMX_INLINE void load_b(const char* b, int64_t column_bytes, int part) {
  _tile_loadd(6, b + part * kBf16TileBytes, kTileStride);
  if constexpr (columns == 2) _tile_loadd(7, b + column_bytes + part * kBf16TileBytes, kTileStride);
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
TRAINER_AMX void multiply(const Bf16Tiles& tiles, float* sums) {
  const int64_t bytes = tiles.steps * parts * kBf16TileBytes;  // of a row or a column of tiles
  const char *a = tiles.a, *b = tiles.b;
  asm volatile("" ::: "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < tiles.steps; ++step, a += parts * kBf16TileBytes, b += parts * kBf16TileBytes) {
    add_part_products<parts, rows, columns>(a, b, bytes);
    tiles.ahead->step();
  }
  _tile_stored(0, sums, kSumsStride);
  if constexpr (columns == 2) _tile_stored(1, sums + kLanes, kSumsStride);
  if constexpr (rows == 2) _tile_stored(2, sums + kLanes * kBf16Width, kSumsStride);
  if constexpr (rows == 2 && columns == 2) _tile_stored(3, sums + kLanes * kBf16Width + kLanes, kSumsStride);
  asm volatile("" ::: "memory");
}

template <int parts>
constexpr Bf16Multiply* kMultiply[2][2] = {{multiply<parts, 1, 1>, multiply<parts, 1, 2>},
                                           {multiply<parts, 2, 1>, multiply<parts, 2, 2>}};

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

void amx_multiply(const Bf16Tiles& tiles, float* sums) {
  const auto& by_size = tiles.parts == 1 ? kMultiply<1> : tiles.parts == 2 ? kMultiply<2> : kMultiply<3>;
  by_size[tiles.rows - 1][tiles.columns - 1](tiles, sums);
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

bool has_amx() {
  static const bool has = has_bf16_pack() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
                          at::cpu::init_amx();
  return has;
}
#else
void amx_multiply(const Bf16Tiles&, float*) {}
DenormalsAreZero::DenormalsAreZero() = default;
DenormalsAreZero::~DenormalsAreZero() = default;
AmxTilesInUse::AmxTilesInUse() = default;
AmxTilesInUse::~AmxTilesInUse() = default;
bool has_amx() {
  return false;
}
#endif

}  // namespace trainer::nn
