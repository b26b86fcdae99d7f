// Matrix products in vectors of this CPU.
#pragma once

#include <cstdint>

namespace trainer::nn {

struct TileKernels;

// Note [Products by tiles]
// A tile of the result, with AVX-512 6 rows of 64 columns, stays in registers while terms are added. The tiles of a
// column of tiles read the same panel of `b`, 256 terms, which are copied to where they lie one after the other if `b`
// is transposed or several tiles read them. There is nothing to prepare or to remember for a shape, unlike with oneDNN,
// whose kernels for each new one take 0.1 ms and remain: batches of ever new lengths grew a process by 300 MB in 60
// updates.
//
// Each element is the sum of its terms in order, 256 at a time, each added by a fused multiplication: it depends
// neither on the number of threads, nor on the other rows and columns, nor on whether the CPU has AVX-512 or AVX2.
//
// Measured on one core of an AMD EPYC (Zen 4, 115 GFLOP/s at most) beside MKL and oneDNN, in GFLOP/s, with AVX-512: the
// products of a layer 99-110, 94-101 and 98-109; 30 x 30 elements of 64 terms, as in attention, 105, 42 and below 30;
// the products of LoRA, with 8 rows, columns or terms, 31-84, 3-59 and 26-76.
inline constexpr int64_t kTileRows = 6;

/// Element (i, j) is data[i * rows + j * columns].
template <class T>
struct Strided {
  const T* data;
  int64_t rows, columns;

  Strided at(int64_t row, int64_t column) const { return {data + row * rows + column * columns, rows, columns}; }
};

/// This CPU's; null: it has neither AVX-512 nor AVX2.
const TileKernels* tile_kernels();

/// c [m, n] = alpha * a b + beta * c over k terms, on the calling thread. With beta 0, c is never read. One of b's
/// strides is 1.
void tiled_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                Strided<float> b, float beta, float* c, int64_t c_stride);

class StoredOperand;

/// The same with a weight that is stored in fewer bits; the sums have the bits of those with the widened weight.
void tiled_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                const StoredOperand& b, float beta, float* c, int64_t c_stride);

}  // namespace trainer::nn
