// Included by the file of each set of instructions, as multiply_tile.h.
#pragma once

#include "models/nn/tile_kernels.h"

namespace trainer::nn {

// Note [Products lane by lane]
// A decoding step reads all weights for few rows, so its time is that of reading memory. tiled_gemm() would transpose
// what it reads, which takes longer: with 8 rows, Zen 5 reads 18 GB/s so, and 34 GB/s where each lane adds its own
// terms and the lanes are added at the end. Sums in that order differ from tiled_gemm()'s in rounding.

template <class Isa, int rows, int columns>
TRAINER_TILE_TARGET void dot_rows(const Dots& dots) {
  constexpr int kLanes = Isa::kLanes;
  typename Isa::Vector sums[rows][columns];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) sums[r][c] = Isa::broadcast(0);
  const typename Isa::Mask last = Isa::first_lanes(dots.terms % kLanes);
  for (int64_t term = 0; term < dots.terms; term += kLanes) {
    const bool whole = term + kLanes <= dots.terms;
    typename Isa::Vector values[columns];
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      const float* const from = dots.b + c * dots.b_columns + term;
      __builtin_prefetch(from + columns * dots.b_columns);
      values[c] = whole ? Isa::load(from) : Isa::load(last, from);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const float* const from = dots.a + r * dots.a_rows + term;
      const typename Isa::Vector factor = whole ? Isa::load(from) : Isa::load(last, from);
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) sums[r][c] = Isa::multiply_add(factor, values[c], sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      float& to = dots.c[r * dots.c_stride + c];
      const float sum = dots.alpha * Isa::sum(sums[r][c]);
      to = dots.beta == 0 ? sum : sum + dots.beta * to;
    }
}

template <class Isa>
constexpr void add_dots(TileKernels& kernels) {
  constexpr int kColumns = Isa::kDotColumns;
  kernels.dot_rows = Isa::kDotRows;
  kernels.dot_columns = kColumns;
  const auto add = [&]<int rows>() {
    if constexpr (rows <= Isa::kDotRows) {
      kernels.dot[0][rows - 1] = dot_rows<Isa, rows, 1>;
      kernels.dot[1][rows - 1] = dot_rows<Isa, rows, kColumns>;
    }
  };
  add.template operator()<1>();
  add.template operator()<2>();
  add.template operator()<3>();
  add.template operator()<4>();
  add.template operator()<5>();
  add.template operator()<6>();
  add.template operator()<7>();
  add.template operator()<8>();
}

}  // namespace trainer::nn
