// One reader per format.
#pragma once

#include <memory>

#include "data/readers/record.h"
#include "data/readers/text_input.h"
#include "engine/config/sections/data.h"

namespace trainer::data {

/// Reads the records of one file, in the file's order.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  /// Reads the next record's fields and line into `record`, which is clear; false at the end of the file.
  /// Errors: BadRecord: this record is bad; the next call continues after it. InputError: the rest of the file can't be
  /// read.
  virtual bool next(Record& record) = 0;
  /// What the library datasets has written into the file about its columns, as JSON; "" if there is nothing. Nothing is
  /// checked.
  virtual std::string declared_features() const { return ""; }
};

using Reader = std::unique_ptr<RecordReader>;

/// `left<delimiter>right` on each line, split at the first or last delimiter; spaces around the parts are ignored.
/// The columns are `source.columns`, by default `source` and `target`. Errors: ConfigError.
Reader delimited_reader(TextInput input, const config::DataSource& source);

/// Comma- or tab-separated values with quotes (RFC 4180). The first line names the columns; with `source.columns` that
/// line is missing, or repeats those names.
Reader separated_reader(TextInput input, char separator, const config::DataSource& source);

/// An array of objects, or an object with exactly one such array among its values.
Reader json_reader(TextInput input);

/// One object on each line.
Reader jsonl_reader(TextInput input);

/// Each line, paragraph or file (`source.sample_by`) is a record with one column, `text` or the one name in
/// `source.columns`. Errors: ConfigError.
Reader text_reader(TextInput input, const config::DataSource& source);

/// Rows of a Parquet or Arrow file. A row's line is its number, from 1; `bytes_read` counts as open_bytes's counter.
/// Errors: MachineError where the library that reads them is missing; InputError.
Reader table_reader(const std::string& path, int64_t* bytes_read);

/// The reader for `format`, one of text. Errors: ConfigError for settings that don't fit it.
Reader make_reader(TextInput input, config::DataFormat format, const config::DataSource& source);

}  // namespace trainer::data
