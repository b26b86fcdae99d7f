#include "models/nn/half_rows.h"

#include <type_traits>

#include "models/nn/convert.h"

namespace trainer::nn {
namespace {

template <class T>
struct HalfRows : StoredRows {
  explicit HalfRows(const at::Tensor& x)
      : StoredRows(x.const_data_ptr<T>(), x.stride(0) * static_cast<int64_t>(sizeof(T)), 1, sizeof(T)) {
    is_bf16 = std::is_same_v<T, c10::BFloat16>;
  }

  void widen(int64_t row, int64_t column, int64_t rows, int64_t columns, float* to, int64_t to_stride) const override {
    const auto* const from = reinterpret_cast<const T*>(at(row, column));
    const int64_t from_stride = stride / static_cast<int64_t>(sizeof(T));
    if (to_stride == columns) return widen_rows(from, from_stride, rows, columns, to);
    for (int64_t r = 0; r < rows; ++r) widen_rows(from + r * from_stride, 0, 1, columns, to + r * to_stride);
  }
};

}  // namespace

std::unique_ptr<StoredRows> half_rows(const at::Tensor& matrix) {
  if (matrix.scalar_type() == at::kBFloat16) return std::make_unique<HalfRows<c10::BFloat16>>(matrix);
  return std::make_unique<HalfRows<c10::Half>>(matrix);
}

}  // namespace trainer::nn
