#include "models/nn/product_parts.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "models/nn/parallel.h"

namespace trainer::nn {
namespace {

// Of a thread: with fewer operations, or fewer columns, splitting a product costs more than it saves.
constexpr int64_t kLeastOperations = 1 << 19, kLeastColumns = 128, kLeastRows = 8;

/// Part number `index` of `parts`, of which all but the last are multiples of `unit`.
Extent part_of(int64_t size, int64_t parts, int64_t index, int64_t unit) {
  const int64_t units = (size + unit - 1) / unit, begin = units * index / parts, end = units * (index + 1) / parts;
  return {std::min(size, begin * unit), std::min(size, end * unit)};
}

}  // namespace

at::Tensor with_contiguous_side(const at::Tensor& x) {
  return x.stride(0) == 1 || x.stride(1) == 1 ? x : x.contiguous();
}

void with_plain_operands(
    const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, const at::Tensor& out,
    c10::function_ref<void(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out)> multiply) {
  if (!out.is_contiguous() || out.is_alias_of(a) || out.is_alias_of(b)) {
    const at::Tensor rows = at::empty(out.sizes(), out.options());
    with_plain_operands(a, b, added, beta, rows, multiply);
    out.copy_(rows);
    return;
  }
  if (beta != 0 && !out.is_same(added)) out.copy_(added);
  multiply(with_contiguous_side(a), with_contiguous_side(b), out);
}

int64_t threads_for(int64_t operations) {
  return std::clamp<int64_t>(operations / kLeastOperations, 1, at::get_num_threads());
}

void for_each_part(int64_t m, int64_t n, int64_t k, int64_t row_unit, int64_t column_unit,
                   c10::function_ref<void(Extent rows, Extent columns)> multiply) {
  // The time of fewer rows is that of reading `b`.
  const int64_t threads = threads_for(std::max(m, kLeastRows) * n * k),
                column_parts = std::clamp<int64_t>(n / kLeastColumns, 1, threads), row_parts = threads / column_parts;
  parallel_for(0, row_parts * column_parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      multiply(part_of(m, row_parts, part / column_parts, row_unit),
               part_of(n, column_parts, part % column_parts, column_unit));
  });
}

}  // namespace trainer::nn
