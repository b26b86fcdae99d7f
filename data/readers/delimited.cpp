#include "data/readers/readers.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// The start of a line, for a message.
std::string excerpt(std::string_view line) {
  constexpr size_t kLength = 60;
  if (line.size() <= kLength) return std::string(line);
  size_t end = kLength;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return std::string(line.substr(0, end)) + "…";
}

std::vector<std::string> two_columns(const config::DataSource& source) {
  if (source.columns.empty()) return {"source", "target"};
  if (source.columns.size() == 2) return source.columns;
  throw ConfigError("columns: a delimited file has 2 columns, but {} names are given.", source.columns.size());
}

}  // namespace

void read_delimited(const TextFile& file, const config::DataSource& source, const RecordSink& sink) {
  if (source.delimiter.empty()) throw ConfigError("delimiter: it must not be empty.");
  std::vector<std::string> columns = two_columns(source);
  for_each_line(file, [&](int64_t number, std::string_view line) {
    size_t at = source.split_at == "first" ? line.find(source.delimiter) : line.rfind(source.delimiter);
    if (at == std::string_view::npos) {
      throw InputError("{}:{}: no '{}' in the line \"{}\".\nEvery line must be {}{}{}; see `delimiter`.", file.path,
                       number, source.delimiter, excerpt(line), columns[0], source.delimiter, columns[1]);
    }
    Record record{{}, file.path, number};
    record.fields.emplace_back(columns[0], trimmed(line.substr(0, at)));
    record.fields.emplace_back(columns[1], trimmed(line.substr(at + source.delimiter.size())));
    sink(std::move(record));
  });
}

}  // namespace trainer::data
