#include "models/nn/stored_weight.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>

#include "models/nn/bf16_products.h"
#include "models/nn/cpu_products.h"
#include "models/nn/few_rows_gemm.h"
#include "models/nn/fp32_products.h"
#include "models/nn/product_parts.h"
#include "models/nn/reference/reference.h"
#include "models/nn/tiled_operand.h"

namespace trainer::nn {
namespace {

/// Whether tiles multiply m rows with a weight of height x width. Where libtorch's products are the faster ones,
/// decoding the weight for a few rows takes longer than the product.
bool takes_tiles(const at::Tensor& rows, int64_t width, int64_t height) {
  if (rows.dim() != 2 || rows.scalar_type() != at::kFloat || runs_reference(rows) || leaves_all_to_libtorch())
    return false;
  const int64_t m = rows.size(0);
  if (uses_fp32_products()) return !has_bf16_product_of_fp32(m, width, height);
  return tile_kernels() != nullptr && has_few_rows(*tile_kernels(), m, width, height);
}

}  // namespace

StoredWeight::StoredWeight(const at::Tensor& value, const Storage& storage, const at::Tensor& rows)
    : transposed_(storage.transposed), height_(value.size(0)), width_(storage.values(value.size(1))) {
  reads_rows_ = storage.has_rows(value) && takes_tiles(rows, width_, height_);
  if (!reads_rows_)
    decoded_ = storage.decode(value, rows.scalar_type());
  else if (!value.is_meta())
    rows_ = storage.rows(value);
}

at::Tensor StoredWeight::multiply(const at::Tensor& a, bool transposed) const {
  if (!reads_rows_) return at::mm(a, transposed ? decoded_.t() : decoded_);
  at::Tensor out = at::empty({a.size(0), transposed == transposed_ ? width_ : height_}, a.options());
  multiply(a, transposed, out);
  return out;
}

void StoredWeight::multiply(const at::Tensor& given, bool transposed, at::Tensor& out) const {
  if (!reads_rows_) {
    at::mm_out(out, given, transposed ? decoded_.t() : decoded_);
    return;
  }
  const bool by_columns = transposed != transposed_;
  const int64_t n = by_columns ? height_ : width_, k = by_columns ? width_ : height_;
  // The profiler counts it, with its FLOPs, as the product that it is.
  RECORD_FUNCTION("aten::mm", std::vector<c10::IValue>({given, at::empty({1, 1}, given.options()).expand({k, n})}));
  if (given.is_meta()) return;
  const at::Tensor a = with_contiguous_side(given);
  for_each_part(a.size(0), n, k, kTileRows, kPanelColumns, [&](Extent rows, Extent columns) {
    const StoredOperand b(*tile_kernels(), *rows_, by_columns, columns.begin, columns.size(), k);
    tiled_gemm(*tile_kernels(), rows.size(), columns.size(), k, 1, strided<float>(a).at(rows.begin, 0), b, 0,
               out.data_ptr<float>() + rows.begin * n + columns.begin, n);
  });
}

}  // namespace trainer::nn
