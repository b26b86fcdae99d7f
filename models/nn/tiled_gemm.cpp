#include "models/nn/tiled_gemm.h"

#include <algorithm>
#include <vector>

#include "models/nn/few_rows_gemm.h"
#include "models/nn/tile_kernels.h"
#include "models/nn/tiled_operand.h"

namespace trainer::nn {
namespace {

// A panel is 64 KiB at most, packed rows are 1.5 MiB.
constexpr int64_t kPackedRows = 256 * kTileRows;

/// The memory of a later panel, which the tiles of this one fetch into the cache: weights come from memory, and waiting
/// for them takes as long as a seventh of the products.
class Ahead {
 public:
  /// `tiles`: which fetch them.
  Ahead(const Lines& lines, int64_t tiles) : lines_(lines), fetches_(lines.runs * lines.fetches) {
    while (terms_per_fetch_ > kLeastTermsPerFetch && tiles * kPanelTerms / terms_per_fetch_ < fetches_)
      terms_per_fetch_ /= 2;
  }

  /// Has `tile` fetch the next ones: the first of every run before the second of any, so that they are equally far
  /// apart.
  void fetch_with(Tile& tile) {
    const bool some = next_ < fetches_;
    tile.fetch_stride = some ? lines_.stride : 0;
    tile.fetch = some ? lines_.data + next_ / lines_.runs * kBytesPerFetch + next_ % lines_.runs * lines_.stride
                      : reinterpret_cast<const char*>(tile.b);
    tile.terms_per_fetch = terms_per_fetch_;
    next_ += tile.terms / terms_per_fetch_;
  }

 private:
  Lines lines_;
  int64_t fetches_, next_ = 0;
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

template <class Operand>
void multiply(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
              const Operand& b, float beta, float* c, int64_t c_stride) {
  if (b.transposed() && has_few_rows(kernels, m, n, k))
    return few_rows_gemm(kernels, m, n, k, alpha, a, b, beta, c, c_stride);
  // Whether enough panels read `a` again.
  const bool packs_a = n > (a.columns == 1 ? 16 : 2) * kernels.columns();
  if (packs_a && m > kPackedRows) {
    for (int64_t row = 0; row < m; row += kPackedRows)
      multiply(kernels, std::min(kPackedRows, m - row), n, k, alpha, a.at(row, 0), b, beta, c + row * c_stride,
               c_stride);
    return;
  }
  // Without terms, c is still multiplied by beta.
  for (int64_t term = 0; term == 0 || term < k; term += kPanelTerms) {
    const float* const packed =
        packs_a ? packed_rows(a.at(0, term), m, std::min(kPanelTerms, k - term)).data() : nullptr;
    for (int64_t column = 0; column < n; column += kernels.columns()) {
      const Panel panel = b.panel(term, column, /*often=*/m > kTileRows);
      const int64_t vectors = (panel.columns + kernels.lanes - 1) / kernels.lanes;
      Tile tile{.a = {},
                .b = panel.data,
                .b_stride = panel.stride,
                .terms = panel.terms,
                .last = panel.columns - (vectors - 1) * kernels.lanes,
                .alpha = alpha,
                .beta = term == 0 ? beta : 1,
                .c = nullptr,
                .c_stride = c_stride,
                .fetch = nullptr,
                .fetch_stride = 0,
                .terms_per_fetch = kMostTermsPerFetch};
      Ahead ahead(b.next(term, column), (m + kTileRows - 1) / kTileRows);
      for (int64_t row = 0; row < m; row += kTileRows) {
        tile.a = packs_a ? Strided<float>{packed + row * kPanelTerms, 1, kTileRows} : a.at(row, term);
        tile.c = c + row * c_stride + column;
        ahead.fetch_with(tile);
        kernels.multiply[vectors - 1][std::min(kTileRows, m - row) - 1](tile);
      }
    }
  }
}

}  // namespace

const TileKernels* tile_kernels() {
  static const TileKernels* const kernels = find_kernels();
  return kernels;
}

void tiled_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                Strided<float> b, float beta, float* c, int64_t c_stride) {
  multiply(kernels, m, n, k, alpha, a, PlainOperand(kernels, b, n, k), beta, c, c_stride);
}

void tiled_gemm(const TileKernels& kernels, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
                const StoredOperand& b, float beta, float* c, int64_t c_stride) {
  multiply(kernels, m, n, k, alpha, a, b, beta, c, c_stride);
}

}  // namespace trainer::nn
