#include "data/readers/record_reader.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

class TextReader : public RecordReader {
 public:
  TextReader(TextInput input, std::string column) : input_(std::move(input)), column_(std::move(column)) {}

  bool next(Record& record) override {
    for (RawPiece piece; input_.cut(line_end_, piece);) {
      std::string_view line = without_line_end(input_.text_of(piece));
      if (trimmed(line).empty()) continue;
      record.line = piece.line;
      record.fields.emplace_back(column_, line);
      return true;
    }
    return false;
  }

 private:
  TextInput input_;
  LineEnd line_end_;
  std::string column_;
};

}  // namespace

Reader text_reader(TextInput input, const config::DataSource& source) {
  if (source.columns.size() > 1) {
    throw ConfigError("columns: {} given; a text file has 1 column.", source.columns.size());
  }
  return std::make_unique<TextReader>(std::move(input), source.columns.empty() ? "text" : source.columns[0]);
}

}  // namespace trainer::data
