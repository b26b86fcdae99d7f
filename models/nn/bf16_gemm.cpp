#include "models/nn/bf16_gemm.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <thread>

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
  char* tiles(Side side, int64_t count) { return tiles_[side == Side::kA ? 0 : 1].of(count * kBf16TileBytes); }
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

  int64_t steps() const { return tiles_for(terms, kBf16Terms); }
  char* at(int64_t line) const { return tiles + line / kBf16Lines * steps() * parts * kBf16TileBytes; }

  /// Writes the tiles of lines from number `line` on.
  void pack(int64_t line) const {
    for (int64_t term = 0; term < terms; term += kBf16Terms)
      bf16_pack(Bf16Block<T>{.data = from.at(line, term).data,
                             .line_stride = from.rows,
                             .term_stride = from.columns,
                             .lines = std::min(kBf16Lines, lines - line),
                             .terms = std::min(kBf16Terms, terms - term)},
                side, parts, at(line) + term / kBf16Terms * parts * kBf16TileBytes);
  }
};

/// Units of work that threads take one after another until none is left. A thread whose core another program uses takes
/// few, and the others wait for it only while it is at work on one; at the end of a loop of OpenMP's, they always do.
class Units {
 public:
  explicit Units(int64_t count) : count_(count) {}
  int64_t count() const { return count_; }
  int64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }  // count() or more: none is left
  void finish_one() { finished_.fetch_add(1, std::memory_order_release); }
  void wait_for_all() const {
    constexpr int kSpins = 2000;
    for (int spins = 0; finished_.load(std::memory_order_acquire) < count_; ++spins)
      if (spins >= kSpins) std::this_thread::yield();
  }

 private:
  int64_t count_;
  std::atomic<int64_t> next_{0}, finished_{0};
};

/// A product of a block of terms, of at most kRows rows.
template <class T, class C>
struct Block {
  Bf16Multiply& multiply;
  Packed<T> rows;
  Strided<T> b;
  int64_t n;
  float alpha, beta;
  C* c;
  int64_t c_stride;
  Units row_groups{tiles_for(rows.lines, kBf16Lines)}, column_groups{tiles_for(n, kBf16Width)};

  int64_t tiles_of_columns() const { return kBf16Width / kBf16Lines * rows.steps() * rows.parts; }

  /// Of the columns of `b` from number `column` on.
  Bf16Ahead ahead_of(int64_t column) const {
    if (column >= n) return {};
    const int64_t width = std::min(kBf16Width, n - column);
    const bool along_terms = b.rows == 1;
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    return {b.at(0, column).data, along_terms ? width : rows.terms, (along_terms ? b.columns : b.rows) * kSize,
            (along_terms ? rows.terms : width) * kSize, tiles_for(rows.lines, kBf16Width) * rows.steps()};
  }

  /// c = alpha * a b + beta * c for kBf16Width columns. Those from `next` on are the thread's next ones.
  void multiply_columns(int64_t column, int64_t next) const {
    const int64_t width = std::min(kBf16Width, n - column), groups = tiles_for(width, kBf16Lines);
    const Packed<T> columns{.from = {b.at(0, column).data, b.columns, b.rows},
                            .side = Side::kB,
                            .lines = width,
                            .terms = rows.terms,
                            .parts = rows.parts,
                            .tiles = scratch().tiles(Side::kB, tiles_of_columns())};
    for (int64_t group = 0; group < groups; ++group) columns.pack(group * kBf16Lines);
    alignas(64) float sums[kBf16Width * kBf16Width];
    Bf16Ahead ahead = ahead_of(next);
    for (int64_t row = 0; row < rows.lines; row += kBf16Width) {
      const int64_t height = std::min(kBf16Width, rows.lines - row);
      multiply({.a = rows.at(row),
                .b = columns.tiles,
                .rows = tiles_for(height, kBf16Lines),
                .columns = groups,
                .steps = rows.steps(),
                .parts = rows.parts,
                .ahead = &ahead},
               sums);
      bf16_store(sums, kBf16Width, height, width, alpha, beta, c + row * c_stride + column, c_stride);
    }
  }

  /// What each thread does.
  void work() {
    for (int64_t group = row_groups.take(); group < row_groups.count(); group = row_groups.take()) {
      rows.pack(group * kBf16Lines);
      row_groups.finish_one();
    }
    row_groups.wait_for_all();
    for (int64_t group = column_groups.take(); group < column_groups.count();) {
      const int64_t next = column_groups.take();
      multiply_columns(group * kBf16Width, next * kBf16Width);
      column_groups.finish_one();
      group = next;
    }
  }
};

/// Blocks of a product, one after another, on libtorch's threads. Their rows are packed into the same memory.
template <class T, class C>
class Blocks {
 public:
  Blocks(Bf16Multiply& multiply, int parts, int64_t n, float alpha, int64_t c_stride)
      : multiply_(multiply), parts_(parts), n_(n), alpha_(alpha), c_stride_(c_stride) {}

  /// c = alpha * a b + beta * c, of m rows and k terms.
  void add(int64_t m, int64_t k, Strided<T> a, Strided<T> b, float beta, C* c) {
    const Packed<T> rows{.from = a, .side = Side::kA, .lines = m, .terms = k, .parts = parts_, .tiles = nullptr};
    blocks_.emplace_back(multiply_, rows, b, n_, alpha_, beta, c, c_stride_);
    row_tiles_ = std::max(row_tiles_, tiles_for(m, kBf16Lines) * rows.steps() * parts_);
    column_tiles_ = std::max(column_tiles_, blocks_.back().tiles_of_columns());
    operations_ += m * n_ * k;
  }

  void run() {
    char* const tiles = scratch().tiles(Side::kA, row_tiles_);
    for (Block<T, C>& block : blocks_) block.rows.tiles = tiles;
    parallel_for(0, threads_for(operations_), 1, [&](int64_t, int64_t) {
      scratch().tiles(Side::kB, column_tiles_);  // if memory is short, before anything is taken that others wait for
      const DenormalsAreZero setting;
      const AmxTilesInUse in_use;
      for (Block<T, C>& block : blocks_) {
        block.work();
        if (&block != &blocks_.back()) block.column_groups.wait_for_all();
      }
    });
  }

 private:
  Bf16Multiply& multiply_;
  int parts_;
  int64_t n_;
  float alpha_;
  int64_t c_stride_;
  std::deque<Block<T, C>> blocks_;
  int64_t row_tiles_ = 0, column_tiles_ = 0, operations_ = 0;
};

/// Calls f(row, rows) for blocks of the rows.
template <class F>
void for_each_block(int64_t size, int64_t of_block, const F& f) {
  for (int64_t begin = 0; begin < size; begin += of_block) f(begin, std::min(of_block, size - begin));
}

}  // namespace

int bf16_parts() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::MEDIUM:
      return 1;
    case at::Float32MatmulPrecision::HIGH:
      return 2;
    default:
      return kMostParts;
  }
}

Bf16Multiply* bf16_multiply_for(int parts) {
#if defined(__x86_64__)
  // Intel's processors compute as many products a cycle in fp32.
  static const bool amx = has_amx(), dots = has_bf16_dots() && __builtin_cpu_is("amd");
#else
  static constexpr bool amx = false, dots = false;
#endif
  return amx ? amx_multiply : dots && parts == 1 ? dot_multiply : nullptr;
}

void bf16_gemm(Bf16Multiply& multiply, int parts, int64_t m, int64_t n, int64_t k, float alpha, Strided<float> a,
               Strided<float> b, float beta, float* c, int64_t c_stride) {
  Blocks<float, float> blocks(multiply, parts, n, alpha, c_stride);
  for_each_block(m, kRows, [&](int64_t row, int64_t rows) {
    for_each_block(std::max<int64_t>(k, 1), terms_of_block(parts), [&](int64_t term, int64_t terms) {
      blocks.add(rows, std::min(terms, k), a.at(row, term), b.at(term, 0), term == 0 ? beta : 1, c + row * c_stride);
    });
  });
  blocks.run();
}

void bf16_gemm(Bf16Multiply& multiply, int64_t m, int64_t n, int64_t k, float alpha, Strided<BFloat16> a,
               Strided<BFloat16> b, float beta, BFloat16* c, int64_t c_stride) {
  const int64_t of_block = terms_of_block(1);
  if (k <= of_block) {
    Blocks<BFloat16, BFloat16> blocks(multiply, 1, n, alpha, c_stride);
    for_each_block(m, kRows,
                   [&](int64_t row, int64_t rows) { blocks.add(rows, k, a.at(row, 0), b, beta, c + row * c_stride); });
    return blocks.run();
  }
  for_each_block(m, kRows, [&](int64_t row, int64_t rows) {
    for_each_block(n, kColumns, [&](int64_t column, int64_t columns) {
      float* const sums = scratch().sums(rows * columns);
      Blocks<BFloat16, float> blocks(multiply, 1, columns, 1, columns);
      for_each_block(k, of_block, [&](int64_t term, int64_t terms) {
        blocks.add(rows, terms, a.at(row, term), b.at(term, column), term == 0 ? 0.0F : 1.0F, sums);
      });
      blocks.run();
      bf16_store(sums, columns, rows, columns, alpha, beta, c + row * c_stride + column, c_stride);
    });
  });
}

}  // namespace trainer::nn
