// Files become records.
#pragma once

#include <string>
#include <vector>

#include "data/readers/bad_record.h"
#include "data/readers/duplicates.h"
#include "data/readers/paths.h"
#include "data/readers/record.h"
#include "data/readers/record_reader.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// What a reading of a source came to.
struct ReadSummary {
  int64_t records = 0;                 // given
  std::vector<int64_t> entry_records;  // the same, for each entry of `path`
  int64_t duplicates = 0;              // left out by `deduplicate`
  BadRecords bad;                      // left out by `on_bad_sample: skip`

  /// What was left out and how much of it, for the user.
  std::vector<std::string> notes() const;
};

/// All records of a source, file by file in their order. Only one record is held at a time.
class RecordStream {
 public:
  /// Errors: ConfigError, InputError.
  explicit RecordStream(const config::DataSource& source);

  /// Reads the next good record; false behind the last one. Errors: InputError, with file and line; also at the end,
  /// when no record was given.
  bool next(Record& record);

  /// The part of the files' bytes that was read, from 0 to 1.
  double part() const { return bytes_ > 0 ? static_cast<double>(bytes_read_) / static_cast<double>(bytes_) : 0; }

  /// Of what was read so far.
  const ReadSummary& summary() const { return summary_; }

 private:
  bool open_next();
  bool read(Record& record);
  void check_end() const;

  config::DataSource source_;
  std::vector<SourceEntry> entries_;
  size_t entry_ = 0, file_ = 0;  // of the next file
  Reader reader_;                // of the file before that
  std::string path_;
  bool has_records_ = false;  // the current file, good or bad ones
  RecordSet seen_;
  int64_t bytes_ = 0, bytes_read_ = 0;  // of all files
  ReadSummary summary_;
};

/// Calls `sink` for every record of `source`. Errors: ConfigError, InputError; also when there is no record.
ReadSummary read_records(const config::DataSource& source, const RecordSink& sink);

}  // namespace trainer::data
