#include <algorithm>
#include <filesystem>

#include "data/readers/readers.h"
#include "engine/base/errors.h"
#include "engine/config/names.h"

namespace trainer::data {

using config::DataFormat;

Reader make_reader(TextInput input, DataFormat format, const config::DataSource& source) {
  switch (format) {
    case DataFormat::kDelimited:
      return delimited_reader(std::move(input), source);
    case DataFormat::kCsv:
      return separated_reader(std::move(input), ',', source);
    case DataFormat::kTsv:
      return separated_reader(std::move(input), '\t', source);
    case DataFormat::kJson:
      return json_reader(std::move(input));
    case DataFormat::kJsonl:
      return jsonl_reader(std::move(input));
    case DataFormat::kText:
      return text_reader(std::move(input), source);
    case DataFormat::kParquet:
    case DataFormat::kMnist:
    case DataFormat::kMegatron:
    case DataFormat::kAuto:
      break;
  }
  throw InternalError("no reader for format {}", config::name_of(format));
}

std::vector<std::string> ReadSummary::notes() const {
  std::vector<std::string> notes = bad.notes();
  if (duplicates > 0) notes.push_back(fmt::format("skipped by deduplicate: {} × a duplicate record", duplicates));
  return notes;
}

namespace {

/// The size of a file in bytes; 0 when it is unknown.
int64_t size_of(const std::string& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : static_cast<int64_t>(size);
}

}  // namespace

RecordStream::RecordStream(const config::DataSource& source) : source_(source), entries_(find_sources(source)) {
  if (entries_.empty()) throw ConfigError("data: no path is given.");
  summary_.entry_records.resize(entries_.size());
  summary_.bad = BadRecords(source.on_bad_sample);
  for (const SourceEntry& entry : entries_)
    for (const SourceFile& file : entry.files) bytes_ += size_of(file.path);
}

bool RecordStream::next(Record& record) {
  while (reader_ || open_next()) {
    record.clear();
    try {
      if (read(record)) return true;
    } catch (const BadRecord& bad) {
      has_records_ = true;
      summary_.bad.take(bad);
    }
  }
  check_end();
  return false;
}

bool RecordStream::open_next() {
  while (entry_ < entries_.size() && file_ == entries_[entry_].files.size()) {
    ++entry_;
    file_ = 0;
  }
  if (entry_ == entries_.size()) return false;
  const SourceFile& file = entries_[entry_].files[file_++];
  path_ = file.path;
  reader_ =
      file.format == DataFormat::kParquet
          ? table_reader(path_, &bytes_read_)
          : make_reader(TextInput(open_bytes(path_, &bytes_read_), path_, source_.encoding), file.format, source_);
  has_records_ = false;
  return true;
}

/// Reads one record of the open file; false when there is none, or it is skipped.
bool RecordStream::read(Record& record) {
  if (!reader_->next(record)) {
    reader_.reset();
    if (!has_records_) throw BadRecord(Fault::kNoRecords, path_, "the file has no records.");
    return false;
  }
  has_records_ = true;
  if (source_.deduplicate && !seen_.add(record)) {
    ++summary_.duplicates;
    return false;
  }
  record.file = path_;
  record.entry = entry_;
  ++summary_.records;
  ++summary_.entry_records[entry_];
  return true;
}

void RecordStream::check_end() const {
  if (summary_.records > 0) return;
  std::vector<std::string> notes = summary_.notes();
  notes.resize(std::min<size_t>(notes.size(), 4));
  throw InputError("{}: no usable records.\n{}", source_.path[0], fmt::join(notes, "\n"));
}

ReadSummary read_records(const config::DataSource& source, const RecordSink& sink) {
  RecordStream stream(source);
  for (Record record; stream.next(record);) sink(std::move(record));
  return stream.summary();
}

}  // namespace trainer::data
