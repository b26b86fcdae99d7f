#include "models/nn/gemm.h"

#include <algorithm>

#include "models/nn/bf16_gemm.h"
#include "models/nn/tiled_gemm.h"

// The BLAS that libtorch exports is column-major.
extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

namespace trainer::nn {
namespace {

int stride_of(int64_t stride) {
  return static_cast<int>(std::max<int64_t>(stride, 1));  // BLAS refuses 0, the stride of a matrix without columns
}

/// Whether tiled_gemm() takes less time than the BLAS.
bool is_small(int64_t m, int64_t n) {
  constexpr int64_t kSmall = 128;
  return std::min(m, n) <= kSmall;
}

/// The instructions for bf16 numbers, where they take less time. With three parts, packing few rows or columns takes as
/// long as it saves.
Bf16Multiply* bf16_multiply_for(int64_t m, int64_t n, int64_t k, int parts) {
  constexpr int64_t kLeast = 32;
  return parts < kMostParts && std::min({m, n, k}) >= kLeast ? nn::bf16_multiply_for(parts) : nullptr;
}

}  // namespace

void gemm(Transposed which, int64_t m, int64_t n, int64_t k, float alpha, Matrix a, Matrix b, float beta, float* c,
          int64_t c_stride, int parts) {
  if (m == 0 || n == 0) return;
  const Strided first = which == Transposed::kFirst ? Strided{a.data, 1, a.stride} : Strided{a.data, a.stride, 1};
  const Strided second = which == Transposed::kSecond ? Strided{b.data, 1, b.stride} : Strided{b.data, b.stride, 1};
  if (Bf16Multiply* const multiply = bf16_multiply_for(m, n, k, parts))
    return bf16_gemm(*multiply, parts, m, n, k, alpha, first, second, beta, c, c_stride);
  if (tile_kernels() != nullptr && is_small(m, n)) {
    tiled_gemm(*tile_kernels(), m, n, k, alpha, first, second, beta, c, c_stride);
    return;
  }
  // Row-major through a column-major BLAS: c^T = b^T a^T.
  const char form_b = which == Transposed::kSecond ? 'T' : 'N', form_a = which == Transposed::kFirst ? 'T' : 'N';
  const int columns = static_cast<int>(n), rows = static_cast<int>(m), terms = static_cast<int>(k);
  const int lda = stride_of(b.stride), ldb = stride_of(a.stride), ldc = stride_of(c_stride);
  sgemm_(&form_b, &form_a, &columns, &rows, &terms, &alpha, b.data, &lda, a.data, &ldb, &beta, c, &ldc);
}

}  // namespace trainer::nn
