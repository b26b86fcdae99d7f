// The kernels of tiled_gemm(), for one set of instructions each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/nn/cache_line.h"
#include "models/nn/tiled_gemm.h"

namespace trainer::nn {

inline constexpr int kMostVectors = 4;        // of a row of a tile
inline constexpr int kTallRows = 12;          // of the highest tile, whose rows are one vector
inline constexpr int kFewestRows = 4;         // of `a`, of the highest tile that turns its columns
inline constexpr int64_t kPanelColumns = 64;  // of the widest tile
inline constexpr int64_t kPanelTerms = 256;   // that a tile adds before it stores its sums

/// rows x columns of c = alpha * a b + beta * c. The columns are `vectors` vectors, of which the last has `last` lanes.
struct Tile {
  Strided<float> a;
  const float* b;
  int64_t b_stride, terms;
  int64_t last;
  float alpha, beta;
  float* c;
  int64_t c_stride;
  // What to bring into the cache for a later tile, kBytesPerFetch every terms_per_fetch terms, and the bytes from one
  // fetch to the next.
  const char* fetch;
  int64_t fetch_stride, terms_per_fetch;
};

inline constexpr int64_t kBytesPerFetch = 4 * kLine;
inline constexpr int64_t kMostTermsPerFetch = 16, kLeastTermsPerFetch = 4;

struct TileKernels {
  using Multiply = void(const Tile& tile);
  using Transpose = void(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                         int64_t to_stride);

  int64_t lanes;  // of a vector
  int64_t vectors;
  Multiply* multiply[kMostVectors][kTileRows];  // by vectors - 1 and rows - 1
  Multiply* tall;                               // of one vector and kTallRows
  /// Of up to `lanes` columns, tile.last, whose terms lie one after the other, b_stride apart; by rows - 1. The others
  /// read b in bf16, in place of the fp32 numbers that it points to.
  Multiply *by_columns[kFewestRows], *by_columns_bf16[kFewestRows];
  /// Of up to lanes x lanes elements; writes whole vectors.
  Transpose* transpose;
  /// With half as many lanes, for products that leave the others empty; null: none.
  const TileKernels* narrow;

  int64_t columns() const { return lanes * vectors; }
};

/// The same for any number of elements. Each row of `to` has space for whole vectors.
inline void transpose(const TileKernels& kernels, const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      float* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; row += kernels.lanes)
    for (int64_t column = 0; column < columns; column += kernels.lanes)
      kernels.transpose(from + row * from_stride + column, from_stride, std::min(kernels.lanes, rows - row),
                        std::min(kernels.lanes, columns - column), to + column * to_stride + row, to_stride);
}

/// Null if this CPU, or the processor that the program was compiled for, lacks the instructions.
const TileKernels* avx512_tile_kernels();
const TileKernels* avx2_tile_kernels();

}  // namespace trainer::nn
