// Included by the file of each set of instructions, after it has defined TRAINER_TILE_TARGET (the functions'
// attribute).
#pragma once

#include <algorithm>

#include <c10/util/BFloat16.h>

#include "models/nn/tile_kernels.h"

namespace trainer::nn {

/// `Isa` has a Vector of kLanes, a Mask of the first lanes, and their operations.
template <class Isa, int rows, int vectors>
TRAINER_TILE_TARGET void multiply_tile(const Tile& tile) {
  constexpr int kLanes = Isa::kLanes;
  const typename Isa::Mask last = Isa::first_lanes(tile.last);
  typename Isa::Vector sums[rows][vectors];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = Isa::broadcast(0);
  const float *a = tile.a.data, *b = tile.b;
  const char* fetch = tile.fetch;
  for (int64_t t = 0; t < tile.terms; fetch += tile.fetch_stride) {
    for (int64_t at = 0; at < kBytesPerFetch; at += kLine)  // few at a time: the core waits for few without stopping
      __builtin_prefetch(fetch + at, /*rw=*/0, /*locality=*/2);
    for (const int64_t end = std::min(tile.terms, t + tile.terms_per_fetch); t < end;
         ++t, a += tile.a.columns, b += tile.b_stride) {
      typename Isa::Vector values[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        values[v] = v + 1 < vectors ? Isa::load(b + v * kLanes) : Isa::load(last, b + v * kLanes);
#pragma GCC unroll 12
      for (int r = 0; r < rows; ++r) {
        const typename Isa::Vector factor = Isa::broadcast(a[r * tile.a.rows]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[r][v] = Isa::multiply_add(factor, values[v], sums[r][v]);
      }
    }
  }
  const typename Isa::Vector alpha = Isa::broadcast(tile.alpha), beta = Isa::broadcast(tile.beta);
  const bool whole = tile.last == kLanes;  // masked stores take long on some CPUs
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      float* const to = tile.c + r * tile.c_stride + v * kLanes;
      typename Isa::Vector value = Isa::multiply(alpha, sums[r][v]);
      if (v + 1 < vectors || whole) {
        if (tile.beta != 0) value = Isa::multiply_add(beta, Isa::load(to), value);
        Isa::store(to, value);
      } else {
        if (tile.beta != 0) value = Isa::multiply_add(beta, Isa::load(last, to), value);
        Isa::store(last, to, value);
      }
    }
  }
}

/// TileKernels::by_columns: columns, in fp32 or bf16, are transposed in registers.
template <class Isa, class T, int rows>
TRAINER_TILE_TARGET void multiply_columns(const Tile& tile) {
  constexpr int kLanes = Isa::kLanes;
  typename Isa::Vector sums[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) sums[r] = Isa::broadcast(0);
  const T* const b = reinterpret_cast<const T*>(tile.b);
  const char* fetch = tile.fetch;
  for (int64_t t = 0, fetched = 0; t < tile.terms; t += kLanes) {
    for (; fetched <= t; fetched += tile.terms_per_fetch, fetch += tile.fetch_stride)
      for (int64_t at = 0; at < kBytesPerFetch; at += kLine) __builtin_prefetch(fetch + at, /*rw=*/0, /*locality=*/2);
    const int64_t terms = std::min<int64_t>(kLanes, tile.terms - t);
    const typename Isa::Mask some = Isa::first_lanes(terms);
    typename Isa::Vector values[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
      values[i] = i < tile.last ? Isa::load(some, b + i * tile.b_stride + t) : Isa::broadcast(0);
    Isa::transpose(values);
    const float* const a = tile.a.data + t * tile.a.columns;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if (i == terms) break;
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
        sums[r] = Isa::multiply_add(Isa::broadcast(a[r * tile.a.rows + i * tile.a.columns]), values[i], sums[r]);
    }
  }
  const typename Isa::Vector alpha = Isa::broadcast(tile.alpha), beta = Isa::broadcast(tile.beta);
  const typename Isa::Mask columns = Isa::first_lanes(tile.last);
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    float* const to = tile.c + r * tile.c_stride;
    typename Isa::Vector value = Isa::multiply(alpha, sums[r]);
    if (tile.beta != 0) value = Isa::multiply_add(beta, Isa::load(columns, to), value);
    Isa::store(columns, to, value);
  }
}

template <class Isa, class T>
constexpr void add_by_columns(TileKernels::Multiply* (&by_rows)[kFewestRows]) {
  by_rows[0] = multiply_columns<Isa, T, 1>;
  by_rows[1] = multiply_columns<Isa, T, 2>;
  by_rows[2] = multiply_columns<Isa, T, 3>;
  by_rows[3] = multiply_columns<Isa, T, 4>;
}

template <class Isa, int vectors>
constexpr void add_by_rows(TileKernels& kernels) {
  auto& by_rows = kernels.multiply[vectors - 1];
  by_rows[0] = multiply_tile<Isa, 1, vectors>;
  by_rows[1] = multiply_tile<Isa, 2, vectors>;
  by_rows[2] = multiply_tile<Isa, 3, vectors>;
  by_rows[3] = multiply_tile<Isa, 4, vectors>;
  by_rows[4] = multiply_tile<Isa, 5, vectors>;
  by_rows[5] = multiply_tile<Isa, 6, vectors>;
}

}  // namespace trainer::nn
