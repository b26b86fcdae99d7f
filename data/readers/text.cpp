#include "data/readers/record_reader.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// `text` with LF at the end of every line.
std::string with_plain_line_ends(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') plain += text[i];
  return plain;
}

/// Pieces without the line end, or empty line, at their end, as the library datasets has them; blank ones are left out.
template <class End>
class TextReader : public RecordReader {
 public:
  TextReader(TextInput input, std::string column) : input_(std::move(input)), column_(std::move(column)) {}

  bool next(Record& record) override {
    for (RawPiece piece; input_.cut(end_, piece);) {
      std::string text = sample(input_.text_of(piece));
      if (text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      record.line = piece.line;
      record.fields.emplace_back(column_, std::move(text));
      return true;
    }
    return false;
  }

 private:
  static std::string sample(std::string_view text) {
    if constexpr (std::is_same_v<End, LineEnd>) return std::string(without_line_end(text));
    std::string plain = with_plain_line_ends(text);
    if (std::is_same_v<End, ParagraphEnd> && plain.ends_with("\n\n")) plain.resize(plain.size() - 2);
    return plain;
  }

  TextInput input_;
  End end_;
  std::string column_;
};

}  // namespace

Reader text_reader(TextInput input, const config::DataSource& source) {
  if (source.columns.size() > 1) {
    throw ConfigError("columns: {} given; a text file has 1 column.", source.columns.size());
  }
  const std::string column = source.columns.empty() ? "text" : source.columns[0];
  switch (source.sample_by) {
    case config::SampleBy::kLine:
      return std::make_unique<TextReader<LineEnd>>(std::move(input), column);
    case config::SampleBy::kParagraph:
      return std::make_unique<TextReader<ParagraphEnd>>(std::move(input), column);
    case config::SampleBy::kDocument:
      return std::make_unique<TextReader<DocumentEnd>>(std::move(input), column);
  }
  throw InternalError("unknown sample_by");
}

}  // namespace trainer::data
