#include "data/readers/paths.h"
#include "data/readers/readers.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using config::DataFormat;

void read_one(const TextFile& file, DataFormat format, const config::DataSource& source, const RecordSink& sink) {
  switch (format) {
    case DataFormat::kDelimited:
      return read_delimited(file, source, sink);
    case DataFormat::kCsv:
      return read_separated(file, ',', source, sink);
    case DataFormat::kTsv:
      return read_separated(file, '\t', source, sink);
    case DataFormat::kJson:
      return read_json(file, source, sink);
    case DataFormat::kJsonl:
      return read_jsonl(file, source, sink);
    case DataFormat::kText:
      return read_text(file, source, sink);
    case DataFormat::kAuto:
      break;
  }
  throw InternalError("no reader for format {}", static_cast<int>(format));
}

}  // namespace

void read_records(const config::DataSource& source, const RecordSink& sink) {
  std::vector<std::string> paths = expand_paths(source);
  if (paths.empty()) throw ConfigError("data: no path is given.");
  int64_t records = 0;
  auto count_and_pass = [&](Record&& record) {
    ++records;
    sink(std::move(record));
  };
  for (const std::string& path : paths) {
    read_one(open_text(path, source.encoding), format_of(path, source.format), source, count_and_pass);
  }
  if (records == 0) {
    throw InputError("{}: no records{}.", paths[0],
                     paths.size() > 1 ? fmt::format(", nor in {} more files", paths.size() - 1) : "");
  }
}

}  // namespace trainer::data
