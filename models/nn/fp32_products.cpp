#include "models/nn/fp32_products.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "models/nn/parallel.h"
#include "models/nn/tiled_gemm.h"

namespace trainer::nn {
namespace {

// Of a thread: with fewer operations, or fewer columns, splitting a product costs more than it saves.
constexpr int64_t kLeastOperations = 1 << 19, kLeastColumns = 128, kUnit = 64;

/// Whether MKL isn't made for this CPU.
bool find_is_slow() {
#if defined(__x86_64__)
  const char* const blas = std::getenv("TRAINER_BLAS");
  if (blas != nullptr && std::string_view(blas) == "mkl") return false;
  return __builtin_cpu_is("amd") && tile_kernels() != nullptr;
#else
  return false;
#endif
}

Strided strided(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1)};
}

/// Part number `index` of `parts`, of which all but the last are multiples of `unit`.
struct Extent {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
Extent part_of(int64_t size, int64_t parts, int64_t index, int64_t unit) {
  const int64_t units = (size + unit - 1) / unit, begin = units * index / parts, end = units * (index + 1) / parts;
  return {std::min(size, begin * unit), std::min(size, end * unit)};
}

}  // namespace

bool has_fp32_product(const at::Tensor& a, const at::Tensor& b) {
  static const bool is_slow = find_is_slow();
  // With fewer rows, reading a transposed b costs more than the product.
  constexpr int64_t kLeastRows = 4;
  return is_slow && a.scalar_type() == at::kFloat && (a.size(0) >= kLeastRows || b.stride(1) == 1);
}

void fp32_product(const at::Tensor& a, const at::Tensor& given_b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out) {
  if (!out.is_contiguous() || out.is_alias_of(a) || out.is_alias_of(given_b)) {
    const at::Tensor rows = at::empty(out.sizes(), out.options());
    fp32_product(a, given_b, added, beta, alpha, rows);
    out.copy_(rows);
    return;
  }
  if (beta != 0 && !out.is_same(added)) out.copy_(added);
  const at::Tensor b = given_b.stride(0) == 1 || given_b.stride(1) == 1 ? given_b : given_b.contiguous();
  const Strided first = strided(a), second = strided(b);
  const int64_t m = out.size(0), n = out.size(1), k = a.size(1);
  const int64_t threads = std::clamp<int64_t>(m * n * k / kLeastOperations, 1, at::get_num_threads());
  const int64_t column_parts = std::clamp<int64_t>(n / kLeastColumns, 1, threads), row_parts = threads / column_parts;
  parallel_for(0, row_parts * column_parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const Extent rows = part_of(m, row_parts, part / column_parts, kTileRows),
                   columns = part_of(n, column_parts, part % column_parts, kUnit);
      tiled_gemm(*tile_kernels(), rows.size(), columns.size(), k, alpha, first.at(rows.begin, 0),
                 second.at(0, columns.begin), beta, out.data_ptr<float>() + rows.begin * n + columns.begin, n);
    }
  });
}

}  // namespace trainer::nn
