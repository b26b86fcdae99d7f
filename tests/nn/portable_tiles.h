// Tiles of 16 lanes in plain C++: the sizes of AVX-512's on any CPU.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#define TRAINER_TILE_TARGET
#include "models/nn/multiply_tile.h"

namespace trainer::testing {

struct Lanes16 {
  using Vector = std::array<float, 16>;
  using Mask = int64_t;
  static constexpr int kLanes = 16, kVectors = 4;

  static Mask first_lanes(int64_t count) { return count; }
  static Vector broadcast(float x) {
    Vector all;
    all.fill(x);
    return all;
  }
  static Vector load(const float* from) { return load(kLanes, from); }
  template <class T>
  static Vector load(Mask lanes, const T* from) {
    Vector x{};
    std::copy_n(from, lanes, x.begin());
    return x;
  }
  static void store(float* to, const Vector& x) { store(kLanes, to, x); }
  static void store(Mask lanes, float* to, const Vector& x) { std::copy_n(x.begin(), lanes, to); }
  static Vector multiply(Vector x, const Vector& y) {
    for (int i = 0; i < kLanes; ++i) x[i] *= y[i];
    return x;
  }
  static Vector multiply_add(Vector x, const Vector& y, const Vector& z) {
    for (int i = 0; i < kLanes; ++i) x[i] = std::fma(x[i], y[i], z[i]);
    return x;
  }
  static void transpose(Vector x[kLanes]) {
    for (int i = 0; i < kLanes; ++i)
      for (int j = 0; j < i; ++j) std::swap(x[i][j], x[j][i]);
  }
};

inline void transpose_plainly(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                              int64_t to_stride) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < Lanes16::kLanes; ++r) to[c * to_stride + r] = r < rows ? from[r * stride + c] : 0;
}

inline const nn::TileKernels& portable_tiles() {
  static const nn::TileKernels kernels = [] {
    nn::TileKernels made{.lanes = Lanes16::kLanes,
                         .vectors = Lanes16::kVectors,
                         .multiply = {},
                         .tall = nn::multiply_tile<Lanes16, nn::kTallRows, 1>,
                         .by_columns = {},
                         .by_columns_bf16 = {},
                         .transpose = transpose_plainly,
                         .narrow = nullptr};
    nn::add_by_columns<Lanes16, float>(made.by_columns);
    nn::add_by_columns<Lanes16, c10::BFloat16>(made.by_columns_bf16);
    nn::add_by_rows<Lanes16, 1>(made);
    nn::add_by_rows<Lanes16, 2>(made);
    nn::add_by_rows<Lanes16, 3>(made);
    nn::add_by_rows<Lanes16, 4>(made);
    return made;
  }();
  return kernels;
}

}  // namespace trainer::testing
