// The second operand of tiled_gemm(): a matrix in fp32, or a weight that is stored in fewer bits.
#pragma once

#include <cstdint>

#include "models/nn/stored_rows.h"
#include "models/nn/tile_kernels.h"

namespace trainer::nn {

/// A part of `b` as tiles read it: rows of `columns` numbers, `stride` apart, for each of the terms.
struct Panel {
  const float* data;
  int64_t stride, terms, columns;
};

/// Memory that is to come into the cache: `fetches` of kBytesPerFetch in each of `runs`, which begin `stride` bytes
/// apart.
struct Lines {
  const char* data;
  int64_t stride, runs, fetches;
};

/// Columns of a transposed `b`: `terms` numbers of each, `stride` apart.
struct Columns {
  const float* data;
  int64_t stride;
  bool is_bf16 = false;  // the numbers at `data`
};

// Note [Steps]
// Panels are packed in steps. A step of a transposed `b` is one panel. Of any other, whose rows lie in memory, it is
// kPanelColumns wide, which are several panels where vectors are narrow: a row of one such panel would be a single
// line, and a block of a stored weight would lie in several. Panels are asked for in order, and those of a step share
// the fetching of the next.

/// What both kinds of `b` [k, n] have in common.
class TiledOperand {
 public:
  TiledOperand(const TileKernels& kernels, bool transposed, int64_t n, int64_t k)
      : kernels_(&kernels), transposed_(transposed), n_(n), k_(k) {}

  bool transposed() const { return transposed_; }

 protected:
  struct Step {
    int64_t term, column, terms, columns;
  };
  Step step_of(int64_t term, int64_t column) const;
  Step step_after(int64_t term, int64_t column) const;
  /// Where a panel is packed.
  Panel packed(int64_t term, int64_t column) const;
  /// Of the runs of the next step, those that the panel at `column` fetches.
  Lines share(int64_t column, const char* data, int64_t stride, int64_t runs, int64_t bytes) const;
  int64_t columns_of_panel() const { return kernels_->columns(); }
  int64_t columns_of_step() const { return transposed_ ? columns_of_panel() : kPanelColumns; }

  const TileKernels* kernels_;
  bool transposed_;
  int64_t n_, k_;
};

class PlainOperand : public TiledOperand {
 public:
  /// One of b's strides is 1.
  PlainOperand(const TileKernels& kernels, Strided<float> b, int64_t n, int64_t k)
      : TiledOperand(kernels, b.columns != 1, n, k), b_(b) {}

  /// Of the columns and terms from these on. Is `b` itself if it needn't be read `often`.
  Panel panel(int64_t term, int64_t column, bool often) const;
  /// What the tiles of a panel fetch for a later one.
  Lines next(int64_t term, int64_t column) const;

  /// For few_rows_gemm(), of a transposed `b`: `count` columns, and what follows them in memory, if it is one run.
  /// They may be in bf16 if that is how `b` is stored.
  Columns columns(int64_t column, int64_t count, int64_t term, int64_t terms, bool may_be_bf16) const;
  const char* after(int64_t column) const;
  int64_t bytes_of(int64_t values) const { return values * static_cast<int64_t>(sizeof(float)); }

 private:
  const char* at(int64_t term, int64_t column) const { return reinterpret_cast<const char*>(b_.at(term, column).data); }

  Strided<float> b_;
};

class StoredOperand : public TiledOperand {
 public:
  /// The weight's rows, or its transpose, from `column` on, a multiple of kPanelColumns.
  StoredOperand(const TileKernels& kernels, const StoredRows& weight, bool transposed, int64_t column, int64_t n,
                int64_t k)
      : TiledOperand(kernels, transposed, n, k), weight_(&weight), column_(column) {}

  /// As PlainOperand's.
  Panel panel(int64_t term, int64_t column, bool often) const;
  Lines next(int64_t term, int64_t column) const;
  Columns columns(int64_t column, int64_t count, int64_t term, int64_t terms, bool may_be_bf16) const;
  const char* after(int64_t column) const;
  int64_t bytes_of(int64_t values) const { return weight_->bytes_of(values); }

 private:
  const char* at(int64_t term, int64_t column) const {
    return transposed_ ? weight_->at(column_ + column, term) : weight_->at(term, column_ + column);
  }

  const StoredRows* weight_;
  int64_t column_;
};

}  // namespace trainer::nn
