#include "data/json_text.h"
#include "data/readers/readers.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// A value as text: strings as they are, null as nothing, the rest as JSON writes it.
std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump();
}

void emit(const nlohmann::json& value, const std::string& path, int64_t line, const RecordSink& sink) {
  if (!value.is_object()) {
    throw InputError("{}:{}: a record must be an object {{\"column\": \"text\", …}}, but this is {} {}.", path, line,
                     value.is_array() ? "an" : "a", value.type_name());
  }
  Record record{{}, path, line};
  for (const auto& [name, field] : value.items()) record.fields.emplace_back(name, text_of(field));
  sink(std::move(record));
}

/// Finds the elements of a top-level array without parsing them, so that each is parsed alone and has a line.
class ArrayScanner {
 public:
  explicit ArrayScanner(const TextFile& file) : file_(file), text_(file.text) {
    skip_space();
    if (peek() != '[')
      fail("a JSON file must be an array of objects [{…}, …]; for one object on each line set `format: jsonl`");
    ++at_;
    skip_space();
    if (peek() == ']') close();
  }

  /// The next element; empty after the last one.
  std::string_view next() {
    if (closed_) return {};
    size_t start = at_;
    element_line_ = line_;
    element_column_ = static_cast<int64_t>(start - (text_.rfind('\n', start) + 1)) + 1;  // npos + 1 is 0
    skip_element();
    std::string_view element = text_.substr(start, at_ - start);
    if (element.empty()) fail("an element of the array is missing");
    skip_space();
    if (peek() == ']') {
      close();
    } else if (peek() == ',') {
      ++at_;
      skip_space();
    } else {
      fail("the array ends without a ']'");
    }
    return element;
  }

  // Where that element begins.
  int64_t line() const { return element_line_; }
  int64_t column() const { return element_column_; }

 private:
  /// Steps to the ',' or ']' that ends the element, or to the end of the text.
  void skip_element() {
    int depth = 0;
    for (bool in_string = false; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\n') ++line_;
      if (in_string) {
        if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
        if (c == '"') in_string = false;
      } else if (c == '"') {
        in_string = true;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == ']')) {
        return;
      } else if (c == ']' || c == '}') {
        --depth;
      }
    }
  }

  void close() {
    closed_ = true;
    ++at_;
    skip_space();
    if (at_ < text_.size()) fail("text follows the end of the array");
  }

  void skip_space() {
    for (; at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos; ++at_) {
      if (text_[at_] == '\n') ++line_;
    }
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  [[noreturn]] void fail(std::string_view why) const { throw InputError("{}:{}: {}.", file_.path, line_, why); }

  const TextFile& file_;
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1, element_line_ = 1, element_column_ = 1;
  bool closed_ = false;
};

}  // namespace

void read_json(const TextFile& file, const config::DataSource&, const RecordSink& sink) {
  ArrayScanner scanner(file);
  for (std::string_view element = scanner.next(); !element.empty(); element = scanner.next()) {
    emit(parse_json(element, file.path, scanner.line(), scanner.column()), file.path, scanner.line(), sink);
  }
}

void read_jsonl(const TextFile& file, const config::DataSource&, const RecordSink& sink) {
  for_each_line(file, [&](int64_t number, std::string_view line) {
    emit(parse_json(line, file.path, number), file.path, number, sink);
  });
}

}  // namespace trainer::data
