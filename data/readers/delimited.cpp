#include "data/readers/bad_record.h"
#include "data/readers/record_reader.h"
#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

/// The beginning of a line, for a message.
std::string excerpt(std::string_view line) {
  constexpr size_t kLength = 60;
  if (line.size() <= kLength) return std::string(line);
  return std::string(line.substr(0, character_begin(line, kLength))) + "…";
}

class DelimitedReader : public RecordReader {
 public:
  DelimitedReader(TextInput input, const config::DataSource& source, std::vector<std::string> columns)
      : input_(std::move(input)),
        columns_(std::move(columns)),
        delimiter_(source.delimiter),
        at_first_(source.split_at == "first") {}

  bool next(Record& record) override {
    for (RawPiece piece; input_.cut(line_end_, piece);) {
      std::string_view line = without_line_end(input_.text_of(piece));
      if (trimmed(line).empty()) continue;
      divide(line, piece, record);
      return true;
    }
    return false;
  }

 private:
  void divide(std::string_view line, const RawPiece& piece, Record& record) const {
    size_t at = at_first_ ? line.find(delimiter_) : line.rfind(delimiter_);
    if (at == std::string_view::npos) {
      throw BadRecord(Fault::kNoDelimiter, fmt::format("{}:{}", input_.path(), piece.line),
                      "no '{}' in the line \"{}\".\nEvery line must be {}{}{}; see `delimiter`.", delimiter_,
                      excerpt(line), columns_[0], delimiter_, columns_[1]);
    }
    record.line = piece.line;
    record.fields.emplace_back(columns_[0], trimmed(line.substr(0, at)));
    record.fields.emplace_back(columns_[1], trimmed(line.substr(at + delimiter_.size())));
  }

  TextInput input_;
  LineEnd line_end_;
  std::vector<std::string> columns_;
  std::string delimiter_;
  bool at_first_;
};

}  // namespace

Reader delimited_reader(TextInput input, const config::DataSource& source) {
  if (source.delimiter.empty()) throw ConfigError("delimiter: must not be empty.");
  std::vector<std::string> columns = source.columns;
  if (columns.empty()) columns = {"source", "target"};
  if (columns.size() != 2) {
    throw ConfigError("columns: {} given; a delimited file has 2 columns.", columns.size());
  }
  return std::make_unique<DelimitedReader>(std::move(input), source, std::move(columns));
}

}  // namespace trainer::data
