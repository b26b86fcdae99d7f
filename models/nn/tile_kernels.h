// The kernels of tiled_gemm(), for one set of instructions each.
#pragma once

#include <cstdint>

#include "models/nn/tiled_gemm.h"

namespace trainer::nn {

inline constexpr int kMostVectors = 4;  // of a row of a tile

/// rows x columns of c = alpha * a b + beta * c. The columns are `vectors` vectors, of which the last has `last` lanes.
struct Tile {
  Strided<float> a;
  const float* b;
  int64_t b_stride, terms;
  int64_t last;
  float alpha, beta;
  float* c;
  int64_t c_stride;
  // Lines to bring into the cache for a later tile, kLinesPerFetch every terms_per_fetch terms, and the distance to the
  // next ones.
  const float* fetch;
  int64_t fetch_stride, terms_per_fetch;
};
/// rows x columns of c = alpha * a b + beta * c, where the terms of each row of `a` and of each column of `b` lie one
/// after the other. Note [Products lane by lane]
struct Dots {
  const float* a;
  int64_t a_rows;  // distance of a's rows
  const float* b;
  int64_t b_columns;  // and of b's columns
  int64_t terms;
  float alpha, beta;
  float* c;
  int64_t c_stride;
};
inline constexpr int64_t kMostDotRows = 8;

inline constexpr int64_t kLine = 16, kLinesPerFetch = 4;  // a line: in floats
inline constexpr int64_t kMostTermsPerFetch = 16, kLeastTermsPerFetch = 4;

struct TileKernels {
  using Multiply = void(const Tile& tile);
  using Transpose = void(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                         int64_t to_stride);

  int64_t lanes;  // of a vector
  int64_t vectors;
  Multiply* multiply[kMostVectors][kTileRows];  // by vectors - 1 and rows - 1
  Transpose* transpose;                         // up to lanes x lanes elements
  using Dot = void(const Dots& dots);
  int64_t dot_rows, dot_columns;  // of the largest
  Dot* dot[2][kMostDotRows];      // of one column, and of dot_columns; by rows - 1

  int64_t columns() const { return lanes * vectors; }
};

/// Null if this CPU, or the processor that the program was compiled for, lacks the instructions.
const TileKernels* avx512_tile_kernels();
const TileKernels* avx2_tile_kernels();

}  // namespace trainer::nn
