// Matrix products of bf16 numbers, and of fp32 numbers as sums of them.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

#include "models/nn/bf16_kernels.h"
#include "models/nn/tiled_gemm.h"

namespace trainer::nn {

// Note [bf16 products]
// AMX multiplies matrices of bf16 numbers and adds in fp32, 16 times as many operations a cycle as fp32 products take.
// AVX-512 has an instruction for pairs of bf16 numbers, with twice as many. oneDNN uses both, but compiles a kernel for
// each new shape, and in small products reaches half of the speed of ours.
//
// An fp32 number has 24 bits and a bf16 number 8, so each is the sum of three. Six of the nine products of such parts
// are larger than what fp32 rounds away: with them, a product of matrices has a smaller error than fp32's own
// (1.3e-7 instead of 3.5e-7 of the result, 768 terms), because fewer of its sums are rounded. Two parts have 16 bits,
// and three products an error of 4e-6; one has 2e-3. Only AMX is fast enough for more than one part. Numbers below
// 1e-31 have fewer bits, as these instructions take denormal numbers for zero; and infinity times a number may be NaN.
//
// The rows of `a` are packed into tiles by all threads, which then take 32 columns of `b` after 32 others, pack them
// and multiply all rows with them. Each element is the sum of its terms, 32 at a time, in order: it depends neither on
// the number of threads, nor on the other rows and columns.

/// The number of parts that fp32 numbers are split into: "highest" is 3, "high" 2 and "medium" 1.
int bf16_parts();

/// Multiplies numbers of `parts` parts by the fastest instructions of this CPU; null if products in fp32 are faster.
Bf16Multiply* bf16_multiply_for(int parts);

/// c [m, n] = alpha * a b + beta * c over k terms, by `multiply`, on libtorch's threads. With beta 0, c is never read.
/// One of the strides of each operand is 1. bf16 is rounded once.
void bf16_gemm(Bf16Multiply& multiply, int parts, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
               Strided<float> b, float beta, float* c, int64_t c_stride);
void bf16_gemm(Bf16Multiply& multiply, int64_t m, int64_t n, int64_t k, float alpha, Strided<c10::BFloat16> a,
               Strided<c10::BFloat16> b, float beta, c10::BFloat16* c, int64_t c_stride);

}  // namespace trainer::nn
