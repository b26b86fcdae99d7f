// The parts of bf16_gemm() that are written in instructions of AVX-512 and AMX.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

#include "models/nn/cache_line.h"

namespace trainer::nn {

// A tile has kBf16Lines lines of an operand, rows of `a` or columns of `b`, over kBf16Terms terms.
inline constexpr int64_t kBf16Lines = 16, kBf16Terms = 32, kBf16TileBytes = 1024;
inline constexpr int kMostParts = 3;

/// Up to kBf16Lines lines and kBf16Terms terms of an operand: element (line, term) is
/// data[line * line_stride + term * term_stride], and one of the strides is 1.
template <class T>
struct Bf16Block {
  const T* data;
  int64_t line_stride, term_stride;
  int64_t lines, terms;
};

/// Which operand a tile belongs to. A row of a tile has the terms of a line of `a`, or two terms of all lines of `b`.
enum class Side { kA, kB };

/// Writes the tiles of a block, one for each of `parts` bf16 numbers whose sum each element is, the largest first.
/// What is missing to a whole tile is zero. `to` is aligned to 64 bytes.
void bf16_pack(const Bf16Block<float>& block, Side side, int parts, char* to);
void bf16_pack(const Bf16Block<c10::BFloat16>& block, Side side, int parts, char* to);

/// Memory that products bring into the second cache for a later one, some lines at each step: weights come from memory,
/// and packing would wait for them.
class Bf16Ahead {
 public:
  Bf16Ahead() = default;  // nothing
  /// `runs` runs of `bytes` bytes, which begin `stride` bytes apart, in `steps` steps.
  Bf16Ahead(const void* data, int64_t runs, int64_t stride, int64_t bytes, int64_t steps)
      : run_(first_line(data)),
        stride_(stride),
        lines_((bytes + kLine - 1) / kLine),
        left_(runs * lines_),
        per_step_((left_ + steps - 1) / steps) {}

  void step() {
    for (int64_t i = 0; i < per_step_ && left_ > 0; ++i, --left_) {
      __builtin_prefetch(run_ + line_ * kLine, /*rw=*/0, /*locality=*/2);
      if (++line_ < lines_) continue;
      line_ = 0;
      run_ += stride_;
    }
  }

 private:
  const char* run_ = nullptr;
  int64_t stride_ = 0, lines_ = 0, left_ = 0, per_step_ = 0, line_ = 0;
};

/// Rows and columns of tiles, each of `steps * parts` tiles: those of a step after each other, and the steps.
struct Bf16Tiles {
  const char *a, *b;
  int64_t rows, columns;  // 1 or 2, in tiles
  int64_t steps;
  int parts;
  Bf16Ahead* ahead;
};
inline constexpr int64_t kBf16Width = 2 * kBf16Lines;  // of two tiles

/// sums [kBf16Width, kBf16Width] = a b, for the rows and columns that there are; aligned to 64 bytes.
using Bf16Multiply = void(const Bf16Tiles& tiles, float* sums);
Bf16Multiply amx_multiply;
Bf16Multiply dot_multiply;  // in AVX-512; of one part

/// c = alpha * sums + beta * c, rows x columns; bf16 is rounded once. With beta 0, c is never read.
void bf16_store(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha, float beta,
                float* c, int64_t c_stride);
void bf16_store(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float alpha, float beta,
                c10::BFloat16* c, int64_t c_stride);

/// As long as it exists, denormal numbers count as zero in the calling thread, as in these products. Each would take
/// bf16_pack() 150 cycles.
class DenormalsAreZero {
 public:
  DenormalsAreZero();
  ~DenormalsAreZero();
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
  unsigned int control_ = 0;
};

/// As long as it exists, the calling thread's tiles are set up for amx_multiply(). Without AMX, it does nothing.
class AmxTilesInUse {
 public:
  AmxTilesInUse();
  ~AmxTilesInUse();
  AmxTilesInUse(const AmxTilesInUse&) = delete;
  AmxTilesInUse& operator=(const AmxTilesInUse&) = delete;
};

/// Whether this CPU has AMX for bf16, and the operating system lets this process use it.
bool has_amx();
/// Whether dot_multiply() can be called.
bool has_bf16_dots();
/// Whether bf16_pack() and bf16_store() can be called.
bool has_bf16_pack();

}  // namespace trainer::nn
