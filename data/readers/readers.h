// Reads data files as records.
#pragma once

#include <string>
#include <vector>

#include "data/readers/bad_record.h"
#include "data/readers/duplicates.h"
#include "data/readers/paths.h"
#include "data/readers/record.h"
#include "data/readers/record_reader.h"
#include "engine/config/sections/data.h"

namespace trainer::data {

/// Statistics of reading a source.
struct ReadSummary {
  int64_t records = 0;                 // returned
  std::vector<int64_t> entry_records;  // the same, for each entry of `path`
  int64_t duplicates = 0;              // skipped by `deduplicate`
  BadRecords bad;                      // skipped by `on_bad_sample: skip`

  /// What was skipped and how often, for the user.
  std::vector<std::string> notes() const;
};

/// All records of a source, file by file, in order. Only one record is in memory at a time.
class RecordStream {
 public:
  /// Errors: ConfigError, InputError.
  explicit RecordStream(const config::DataSource& source);

  /// Reads the next good record; false after the last one. Errors: InputError, with file and line; also at the end if
  /// there was no record.
  bool next(Record& record);

  /// The fraction of the files' bytes that was read, from 0 to 1.
  double part() const { return bytes_ > 0 ? static_cast<double>(bytes_read_) / static_cast<double>(bytes_) : 0; }

  /// Of the records read so far.
  const ReadSummary& summary() const { return summary_; }

 private:
  bool open_next();
  bool read(Record& record);
  void check_end() const;

  config::DataSource source_;
  std::vector<SourceEntry> entries_;
  size_t entry_ = 0, file_ = 0;  // of the next file
  Reader reader_;                // of the current file
  std::string path_;
  bool has_records_ = false;  // whether the current file has records, good or bad
  RecordSet seen_;
  int64_t bytes_ = 0, bytes_read_ = 0;  // of all files
  ReadSummary summary_;
};

/// Calls `sink` for every record of `source`. Errors: ConfigError, InputError; also when there is no record.
ReadSummary read_records(const config::DataSource& source, const RecordSink& sink);

}  // namespace trainer::data
