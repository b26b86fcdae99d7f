#include "models/nn/amx_gemm.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include <ATen/Context.h>

#include "models/nn/parallel.h"
#include "models/nn/product_parts.h"

namespace trainer::nn {
namespace {

using c10::BFloat16;

// Of a block. The tiles of a's rows are at most 1 MiB, half of the second cache; those of 32 columns of b's fit into
// the first, or nearly so.
constexpr int64_t kRows = 512, kColumns = 2048;
int64_t terms_of_block(int parts) {
  return parts == kMostParts ? 256 : parts == 2 ? 384 : 1024;
}

/// How many parts of `of_part` hold `size`.
int64_t tiles_for(int64_t size, int64_t of_part) {
  return (size + of_part - 1) / of_part;
}

/// A thread's memory for tiles and sums, kept for the next product.
class Scratch {
 public:
  char* tiles(Side side, int64_t count) { return tiles_[side == Side::kA ? 0 : 1].of(count * kAmxTileBytes); }
  float* sums(int64_t count) { return reinterpret_cast<float*>(sums_.of(count * static_cast<int64_t>(sizeof(float)))); }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  class Aligned {
   public:
    char* of(int64_t bytes) {
      if (bytes <= size_) return memory_.get();
      constexpr int64_t kPage = 4096;
      const int64_t pages = tiles_for(bytes, kPage);
      size_ = 0;
      memory_.reset(static_cast<char*>(std::aligned_alloc(kPage, static_cast<size_t>(pages * kPage))));
      if (memory_ == nullptr) throw std::bad_alloc();
      size_ = pages * kPage;
      return memory_.get();
    }

   private:
    std::unique_ptr<char, Free> memory_;
    int64_t size_ = 0;
  };
  Aligned tiles_[2], sums_;
};

Scratch& scratch() {
  thread_local Scratch scratch;
  return scratch;
}

/// Some lines and terms of an operand, as tiles.
template <class T>
struct Packed {
  Strided<T> from;  // (line, term)
  Side side;
  int64_t lines, terms;
  int parts;
  char* tiles;

  int64_t steps() const { return tiles_for(terms, kAmxTerms); }
  char* at(int64_t line) const { return tiles + line / kAmxLines * steps() * parts * kAmxTileBytes; }

  /// Writes the tiles of lines from number `line` on.
  void pack(int64_t line) const {
    for (int64_t term = 0; term < terms; term += kAmxTerms)
      amx_pack(AmxBlock<T>{.data = from.at(line, term).data,
                           .line_stride = from.rows,
                           .term_stride = from.columns,
                           .lines = std::min(kAmxLines, lines - line),
                           .terms = std::min(kAmxTerms, terms - term)},
               side, parts, at(line) + term / kAmxTerms * parts * kAmxTileBytes);
  }
};

/// A product of a block of terms, of at most kRows rows.
template <class T, class C>
struct Block {
  AmxMultiply& multiply;
  Packed<T> rows;
  Strided<T> b;
  int64_t n;
  float alpha, beta;
  C* c;
  int64_t c_stride;

  /// Of the columns of `b` from number `column` on.
  AmxAhead ahead_of(int64_t column) const {
    if (column >= n) return {};
    const int64_t width = std::min(kAmxWidth, n - column);
    const bool along_terms = b.rows == 1;
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    return {b.at(0, column).data, along_terms ? width : rows.terms, (along_terms ? b.columns : b.rows) * kSize,
            (along_terms ? rows.terms : width) * kSize, tiles_for(rows.lines, kAmxWidth) * rows.steps()};
  }

  /// c = alpha * a b + beta * c for kAmxWidth columns. Those from `next` on are the thread's next ones.
  void multiply_columns(int64_t column, int64_t next) const {
    const int64_t width = std::min(kAmxWidth, n - column), groups = tiles_for(width, kAmxLines);
    const Packed<T> columns{.from = {b.at(0, column).data, b.columns, b.rows},
                            .side = Side::kB,
                            .lines = width,
                            .terms = rows.terms,
                            .parts = rows.parts,
                            .tiles = scratch().tiles(Side::kB, groups * rows.steps() * rows.parts)};
    for (int64_t group = 0; group < groups; ++group) columns.pack(group * kAmxLines);
    alignas(64) float sums[kAmxWidth * kAmxWidth];
    AmxAhead ahead = ahead_of(next);
    for (int64_t row = 0; row < rows.lines; row += kAmxWidth) {
      const int64_t height = std::min(kAmxWidth, rows.lines - row);
      multiply({.a = rows.at(row),
                .b = columns.tiles,
                .rows = tiles_for(height, kAmxLines),
                .columns = groups,
                .steps = rows.steps(),
                .parts = rows.parts,
                .ahead = &ahead},
               sums);
      amx_store(sums, kAmxWidth, height, width, alpha, beta, c + row * c_stride + column, c_stride);
    }
  }

  /// On libtorch's threads. Each takes the next columns when it is done with its last: another program may slow some of
  /// them down, and one that shares a core more than halves the speed of AMX there.
  void run() const {
    const int64_t threads = threads_for(rows.lines * n * rows.terms), groups = tiles_for(rows.lines, kAmxLines);
    parallel_for(0, groups, tiles_for(groups, threads), [&](int64_t begin, int64_t end) {
      const DenormalsAreZero setting;
      for (int64_t group = begin; group < end; ++group) rows.pack(group * kAmxLines);
    });
    std::atomic<int64_t> next{0};
    parallel_for(0, threads, 1, [&](int64_t, int64_t) {
      const DenormalsAreZero setting;
      const AmxTilesInUse in_use;
      for (int64_t column = next.fetch_add(kAmxWidth); column < n;) {
        const int64_t following = next.fetch_add(kAmxWidth);
        multiply_columns(column, following);
        column = following;
      }
    });
  }
};

/// c = alpha * a b + beta * c for a block of terms, of at most kRows rows.
template <class T, class C>
void multiply_block(AmxMultiply& multiply, int parts, int64_t m, int64_t n, int64_t k, float alpha, Strided<T> a,
                    Strided<T> b, float beta, C* c, int64_t c_stride) {
  Packed<T> rows{.from = a, .side = Side::kA, .lines = m, .terms = k, .parts = parts, .tiles = nullptr};
  rows.tiles = scratch().tiles(Side::kA, tiles_for(m, kAmxLines) * rows.steps() * parts);
  Block<T, C>{multiply, rows, b, n, alpha, beta, c, c_stride}.run();
}

/// Calls f(row, rows) for blocks of the rows.
template <class F>
void for_each_block(int64_t size, int64_t of_block, const F& f) {
  for (int64_t begin = 0; begin < size; begin += of_block) f(begin, std::min(of_block, size - begin));
}

}  // namespace

int amx_parts() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::MEDIUM:
      return 1;
    case at::Float32MatmulPrecision::HIGH:
      return 2;
    default:
      return kMostParts;
  }
}

void amx_gemm(AmxMultiply& multiply, int parts, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
              Strided<float> b, float beta, float* c, int64_t c_stride) {
  for_each_block(m, kRows, [&](int64_t row, int64_t rows) {
    for_each_block(std::max<int64_t>(k, 1), terms_of_block(parts), [&](int64_t term, int64_t terms) {
      multiply_block(multiply, parts, rows, n, std::min(terms, k), alpha, a.at(row, term), b.at(term, 0),
                     term == 0 ? beta : 1, c + row * c_stride, c_stride);
    });
  });
}

void amx_gemm(AmxMultiply& multiply, int64_t m, int64_t n, int64_t k, float alpha, Strided<BFloat16> a,
              Strided<BFloat16> b, float beta, BFloat16* c, int64_t c_stride) {
  const int64_t of_block = terms_of_block(1);
  for_each_block(m, kRows, [&](int64_t row, int64_t rows) {
    if (k <= of_block)
      return multiply_block(multiply, 1, rows, n, k, alpha, a.at(row, 0), b, beta, c + row * c_stride, c_stride);
    for_each_block(n, kColumns, [&](int64_t column, int64_t columns) {
      float* const sums = scratch().sums(rows * columns);
      for_each_block(k, of_block, [&](int64_t term, int64_t terms) {
        multiply_block(multiply, 1, rows, columns, terms, 1, a.at(row, term), b.at(term, column),
                       term == 0 ? 0.0F : 1.0F, sums, columns);
      });
      amx_store(sums, columns, rows, columns, alpha, beta, c + row * c_stride + column, c_stride);
    });
  });
}

}  // namespace trainer::nn
