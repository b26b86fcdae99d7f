#include "models/nn/few_rows_gemm.h"

#include <algorithm>
#include <vector>

#include "models/nn/tiled_operand.h"

namespace trainer::nn {
namespace {

constexpr int64_t kBlock = 4 * kTallRows;  // columns of `b` whose results are transposed together
static_assert(kBlock % kTileRows == 0);

/// The rows of `a` as columns, `width` elements for each term, of which those past m are anything finite.
const float* transposed_rows(const TileKernels& kernels, Strided<float> a, int64_t m, int64_t k, int64_t width) {
  thread_local std::vector<float> rows;
  rows.resize(static_cast<size_t>(k * width));
  if (a.columns == 1) {
    transpose(kernels, a.data, a.rows, m, k, rows.data(), width);
    return rows.data();
  }
  for (int64_t t = 0; t < k; ++t)
    for (int64_t r = 0; r < width; ++r) rows[static_cast<size_t>(t * width + r)] = r < m ? *a.at(r, t).data : 0;
  return rows.data();
}

/// c[r, i] = sums[i, r] for all m rows and the columns of a block; whole vectors would overwrite what is beside them.
void store(const TileKernels& kernels, const float* sums, int64_t width, int64_t m, int64_t columns, float* c,
           int64_t c_stride) {
  const int64_t whole = columns / kernels.lanes * kernels.lanes;
  transpose(kernels, sums, width, whole, m, c, c_stride);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t i = whole; i < columns; ++i) c[r * c_stride + i] = sums[i * width + r];
}

/// With kFewestRows or fewer, the lanes of vectors are columns of `b` instead.
template <class Operand>
void gemm_by_columns(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                     const Operand& b, float beta, float* c, int64_t c_stride) {
  if (m == 0) return;
  for (int64_t column = 0; column < n; column += kernels.lanes) {
    const int64_t columns = std::min(kernels.lanes, n - column);
    const char* const next = b.after(column + columns);
    for (int64_t term = 0; term == 0 || term < k; term += kPanelTerms) {  // c is multiplied by beta without terms too
      const int64_t terms = std::min(kPanelTerms, k - term);
      const Columns part = b.columns(column, columns, term, terms, /*may_be_bf16=*/true);
      const auto* const by_rows = part.is_bf16 ? kernels.by_columns_bf16 : kernels.by_columns;
      by_rows[m - 1](
          {.a = a.at(0, term),
           .b = part.data,
           .b_stride = part.stride,
           .terms = terms,
           .last = columns,
           .alpha = alpha,
           .beta = term == 0 ? beta : 1,
           .c = c + column,
           .c_stride = c_stride,
           .fetch = next != nullptr ? next + b.bytes_of(term * columns) : reinterpret_cast<const char*>(a.data),
           .fetch_stride = next != nullptr ? kBytesPerFetch : 0,
           .terms_per_fetch = kPanelTerms * kBytesPerFetch / b.bytes_of(kPanelTerms * columns)});
    }
  }
}

}  // namespace

bool has_few_rows(const TileKernels& kernels, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kFew = 16, kUnused = 4, kLeast = 256;  // of rows, of lanes of two vectors, of W's rows and columns
  const int64_t two = 2 * kernels.lanes;
  return m <= kFewestRows || (std::min(n, k) >= kLeast && (m <= kFew || (m <= two && m >= two - kUnused)));
}

template <class Operand>
void few_rows_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                   const Operand& b, float beta, float* c, int64_t c_stride) {
  if (m <= kFewestRows) return gemm_by_columns(kernels, m, n, k, alpha, a, b, beta, c, c_stride);
  if (kernels.narrow != nullptr && m <= kernels.narrow->lanes)
    return few_rows_gemm(*kernels.narrow, m, n, k, alpha, a, b, beta, c, c_stride);
  const int64_t vectors = (m + kernels.lanes - 1) / kernels.lanes, width = vectors * kernels.lanes;
  const float* const rows = transposed_rows(kernels, a, m, k, width);
  alignas(64) float sums[kBlock * kPanelColumns];
  for (int64_t column = 0; column < n; column += kBlock) {
    const int64_t columns = std::min(kBlock, n - column);
    if (beta != 0) transpose(kernels, c + column, c_stride, m, columns, sums, width);
    for (int64_t first = 0, height = 0; first < columns; first += height) {
      const bool tall = vectors == 1 && columns - first >= kTallRows;
      height = tall ? kTallRows : std::min(kTileRows, columns - first);
      const auto multiply = tall ? kernels.tall : kernels.multiply[vectors - 1][height - 1];
      const char* const next = b.after(column + first + height);
      for (int64_t term = 0; term < k; term += kPanelTerms) {
        const int64_t terms = std::min(kPanelTerms, k - term);
        const Columns part = b.columns(column + first, height, term, terms, /*may_be_bf16=*/false);
        multiply({.a = {part.data, part.stride, 1},
                  .b = rows + term * width,
                  .b_stride = width,
                  .terms = terms,
                  .last = kernels.lanes,
                  .alpha = alpha,
                  .beta = term == 0 ? beta : 1,
                  .c = sums + first * width,
                  .c_stride = width,
                  .fetch = next != nullptr ? next + b.bytes_of(term * height) : reinterpret_cast<const char*>(rows),
                  .fetch_stride = next != nullptr ? kBytesPerFetch : 0,
                  .terms_per_fetch = kPanelTerms * kBytesPerFetch / b.bytes_of(kPanelTerms * height)});
      }
    }
    store(kernels, sums, width, m, columns, c + column, c_stride);
  }
}

template void few_rows_gemm(const TileKernels&, int64_t, int64_t, int64_t, float, Strided<float>, const PlainOperand&,
                            float, float*, int64_t);
template void few_rows_gemm(const TileKernels&, int64_t, int64_t, int64_t, float, Strided<float>, const StoredOperand&,
                            float, float*, int64_t);

}  // namespace trainer::nn
