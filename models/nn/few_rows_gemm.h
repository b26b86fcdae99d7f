// Products of few rows with transposed weights.
#pragma once

#include <cstdint>

#include "models/nn/tile_kernels.h"

namespace trainer::nn {

// Note [Products of few rows]
// The time of x W^T with few rows of x is that of reading W. tiled_gemm() would transpose each part of W, which takes
// longer than to multiply it with 16 rows, and reads many short runs of memory. Here x is transposed instead, and the
// result: in (W x^T)^T, each element of W is read once, in the order of memory, and multiplied with a vector of
// elements of x. The sums are the same, bit by bit.
//
// Measured on one core of an AMD EPYC (Zen 5), weights from memory, in GFLOP/s, tiled_gemm() and this: 4 rows 22 and
// 44, 8 rows 47 and 85, 12 rows 67 and 118, 16 rows 98 and 160, 32 rows 172 and 205; in AVX2's instructions 8 rows 26
// and 89, 16 rows 44 and 103. What stays in a cache is transposed in less time.
//
// That multiplies each element of W with all lanes of a vector, however few rows there are. With up to 8, vectors of 8
// lanes are used instead of 16; with up to 4, W is transposed after all, but in registers, and from bf16 where it is
// stored so. On one core of an AMD EPYC (Zen 4), 8 rows of 768 terms: 46 and 64 GFLOP/s with 16 and 8 lanes. On two,
// a token of one prompt, with LLaMA of 95M in bf16: 21 ms, transposed in registers 10, of which reading its weights
// takes 8.

/// Whether few_rows_gemm() takes less time than tiled_gemm() for a transposed `b`.
bool has_few_rows(const TileKernels& kernels, int64_t m, int64_t n, int64_t k);

/// tiled_gemm() for a transposed `b`, a PlainOperand or a StoredOperand, and at most as many rows as a tile has
/// columns.
template <class Operand>
void few_rows_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                   const Operand& b, float beta, float* c, int64_t c_stride);

}  // namespace trainer::nn
