// Opens Parquet and Arrow files as a stream of batches of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <arrow/record_batch.h>

namespace trainer::data {

/// The rows of a file, a batch at a time.
struct Table {
  std::shared_ptr<arrow::Schema> schema;
  /// The next batch; null at the end. Each is valid: the offsets and indices in it are within bounds.
  std::function<arrow::Result<std::shared_ptr<arrow::RecordBatch>>()> next;
  /// The fraction of the file that was read, from 0 to 1, after `rows` rows.
  std::function<double(int64_t rows)> part;
  int64_t bytes = 0;  // of the file
};

/// Opens a file by its content: Parquet, or Arrow's file or stream format. Errors: InputError for another file, or one
/// that is damaged, encrypted or compressed as a whole.
Table open_table(const std::string& path);

/// Throws an InputError about `path` with Arrow's reason, in one line.
[[noreturn]] void fail_table(const std::string& path, const arrow::Status& status);

}  // namespace trainer::data
