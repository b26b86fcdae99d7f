#include "models/nn/tiled_gemm.h"

#include <algorithm>
#include <vector>

#include "models/nn/few_rows_gemm.h"
#include "models/nn/tile_kernels.h"

namespace trainer::nn {
namespace {

// A panel is 64 KiB at most, packed rows are 1.5 MiB.
constexpr int64_t kPackedRows = 256 * kTileRows;

/// panel[t, c] = b[t, c], for terms x columns of b.
void fill_panel(const TileKernels& kernels, Strided<float> b, int64_t terms, int64_t columns, float* panel) {
  const int64_t stride = kernels.columns();
  if (b.columns != 1) return transpose(kernels, b.data, b.columns, columns, terms, panel, stride);
  for (int64_t t = 0; t < terms; ++t) std::copy_n(b.data + t * b.rows, columns, panel + t * stride);
}

/// The lines of a part of `b`, which the tiles of the part before it fetch into the cache: weights come from memory,
/// and waiting for them takes as long as a seventh of the products.
class Ahead {
 public:
  /// `tiles`: which fetch them.
  Ahead(Strided<float> b, int64_t terms, int64_t columns, int64_t tiles)
      : b_(b),
        stride_(b.columns == 1 ? b.rows : b.columns),
        runs_(b.columns == 1 ? terms : columns),
        fetches_(runs_ * ((b.columns == 1 ? columns : terms) / (kLine * kLinesPerFetch))) {
    while (terms_per_fetch_ > kLeastTermsPerFetch && tiles * kPanelTerms / terms_per_fetch_ < fetches_)
      terms_per_fetch_ /= 2;
  }

  /// Has `tile` fetch the next ones: the first of every run before the second of any, so that they are equally far
  /// apart.
  void fetch_with(Tile& tile) {
    const bool some = next_ < fetches_;
    tile.fetch_stride = some ? stride_ : 0;
    tile.fetch = some ? b_.data + next_ / runs_ * kLine * kLinesPerFetch + next_ % runs_ * stride_ : tile.b;
    tile.terms_per_fetch = terms_per_fetch_;
    next_ += tile.terms / terms_per_fetch_;
  }

 private:
  Strided<float> b_;
  int64_t stride_, runs_, fetches_, next_ = 0;
  int64_t terms_per_fetch_ = kMostTermsPerFetch;
};

/// The terms of `a`, as its tiles read them: tile after tile, each term's rows together.
std::vector<float>& packed_rows(Strided<float> a, int64_t m, int64_t terms) {
  thread_local std::vector<float> packed;
  packed.resize((m + kTileRows - 1) / kTileRows * kTileRows * kPanelTerms);
  for (int64_t row = 0; row < m; row += kTileRows) {
    float* to = packed.data() + row * kPanelTerms;
    for (int64_t t = 0; t < terms; ++t, to += kTileRows)
      for (int64_t r = 0; r < std::min(kTileRows, m - row); ++r) to[r] = *a.at(row + r, t).data;
  }
  return packed;
}

const TileKernels* find_kernels() {
  const TileKernels* const avx512 = avx512_tile_kernels();
  return avx512 != nullptr ? avx512 : avx2_tile_kernels();
}

}  // namespace

const TileKernels* tile_kernels() {
  static const TileKernels* const kernels = find_kernels();
  return kernels;
}

void tiled_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                Strided<float> b, float beta, float* c, int64_t c_stride) {
  if (b.columns != 1 && has_few_rows(kernels, m, n, k))
    return few_rows_gemm(kernels, m, n, k, alpha, a, b, beta, c, c_stride);
  const int64_t lanes = kernels.lanes, width = kernels.columns();
  // Whether enough panels read `a` again.
  const bool packs_a = n > (a.columns == 1 ? 16 : 2) * width;
  if (packs_a && m > kPackedRows) {
    for (int64_t row = 0; row < m; row += kPackedRows)
      tiled_gemm(kernels, std::min(kPackedRows, m - row), n, k, alpha, a.at(row, 0), b, beta, c + row * c_stride,
                 c_stride);
    return;
  }
  const bool copies_b = b.columns != 1 || m > kTileRows;
  alignas(64) thread_local float panel[kPanelTerms * kPanelColumns];
  // Without terms, c is still multiplied by beta.
  for (int64_t term = 0; term == 0 || term < k; term += kPanelTerms) {
    const int64_t terms = std::min(kPanelTerms, k - term);
    const float* const packed = packs_a ? packed_rows(a.at(0, term), m, terms).data() : nullptr;
    for (int64_t column = 0; column < n; column += width) {
      const int64_t columns = std::min(width, n - column), vectors = (columns + lanes - 1) / lanes;
      const Strided<float> part = b.at(term, column);
      if (copies_b) fill_panel(kernels, part, terms, columns, panel);
      Tile tile{.a = {},
                .b = copies_b ? panel : part.data,
                .b_stride = copies_b ? width : part.rows,
                .terms = terms,
                .last = columns - (vectors - 1) * lanes,
                .alpha = alpha,
                .beta = term == 0 ? beta : 1,
                .c = nullptr,
                .c_stride = c_stride,
                .fetch = nullptr,
                .fetch_stride = 0,
                .terms_per_fetch = kMostTermsPerFetch};
      const bool has_next = column + width < n;
      Ahead ahead(has_next ? b.at(term, column + width) : b.at(term + terms, 0),
                  has_next ? terms : std::min(kPanelTerms, k - term - terms),
                  std::min(width, has_next ? n - column - width : n), (m + kTileRows - 1) / kTileRows);
      for (int64_t row = 0; row < m; row += kTileRows) {
        tile.a = packs_a ? Strided<float>{packed + row * kPanelTerms, 1, kTileRows} : a.at(row, term);
        tile.c = c + row * c_stride + column;
        ahead.fetch_with(tile);
        kernels.multiply[vectors - 1][std::min(kTileRows, m - row) - 1](tile);
      }
    }
  }
}

}  // namespace trainer::nn
