// The rows of a weight that is stored in 16 or 4 bits, as products read them.
#pragma once

#include <cstdint>

namespace trainer::nn {

/// A matrix in memory. Columns that begin or end somewhere else than at a multiple of `block` can't be read.
struct StoredRows {
  const char* data;   // of the first row
  int64_t stride;     // bytes from a row to the next
  int64_t block = 1;  // values that are stored together, in `bytes` bytes
  int64_t bytes;
  bool is_bf16 = false;

  StoredRows(const void* begin, int64_t row_stride, int64_t values, int64_t bytes_of_them)
      : data(static_cast<const char*>(begin)), stride(row_stride), block(values), bytes(bytes_of_them) {}
  virtual ~StoredRows() = default;
  /// Writes the fp32 values of rows x columns, from (row, column) on, to `to`, whose rows are `to_stride` apart.
  virtual void widen(int64_t row, int64_t column, int64_t rows, int64_t columns, float* to,
                     int64_t to_stride) const = 0;

  int64_t bytes_of(int64_t values) const { return values * bytes / block; }
  const char* at(int64_t row, int64_t column) const { return data + row * stride + bytes_of(column); }
};

}  // namespace trainer::nn
