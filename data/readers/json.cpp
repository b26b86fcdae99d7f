#include "data/readers/bad_record.h"
#include "data/readers/json_object.h"
#include "data/readers/record_reader.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

void take_object(std::string_view text, const TextInput& input, const RawPiece& piece, Record& record) {
  try {
    read_object(text, record);
  } catch (const JsonFault& fault) {
    throw BadRecord(fault.fault, input.place(piece, fault.offset), "{}.", fault.why);
  }
  record.line = piece.line;
}

class JsonlReader : public RecordReader {
 public:
  explicit JsonlReader(TextInput input) : input_(std::move(input)) {}

  bool next(Record& record) override {
    for (RawPiece piece; input_.cut(line_end_, piece);) {
      std::string_view line = without_line_end(input_.text_of(piece));
      if (trimmed(line).empty()) continue;
      take_object(line, input_, piece, record);
      return true;
    }
    return false;
  }

 private:
  TextInput input_;
  LineEnd line_end_;
};

/// Pieces are JSON values; only brackets and quotes are examined.
class ValueEnd : public PieceEnd {
 public:
  void begin() override {
    depth_ = 0;
    in_string_ = escaped_ = false;
  }

  size_t find(std::string_view text, size_t from) override {
    for (size_t at = from; at < text.size(); ++at) {
      if (in_string_) {
        if (!escaped_) at += plain_length(text.substr(at));
        if (at == text.size()) break;
        if (step_in_string(text[at]) && depth_ == 0) return at + 1;
      } else if (depth_ == 0 && kBehindValues.find(text[at]) != std::string_view::npos) {
        return at;
      } else if (step(text[at]) && depth_ == 0) {
        return at + 1;
      }
    }
    return std::string_view::npos;
  }

  /// True while the value has not ended.
  bool open() const { return depth_ > 0 || in_string_; }

 private:
  static constexpr std::string_view kBehindValues = ",:]} \t\r\n";

  /// True when `c` ends a string.
  bool step_in_string(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      return true;
    }
    return false;
  }

  /// True when `c` ends an object or array.
  bool step(char c) {
    if (c == '"') in_string_ = true;
    if (c == '[' || c == '{') ++depth_;
    if (c != ']' && c != '}') return false;
    --depth_;
    return true;
  }

  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

/// Splits the array's elements before parsing them, so that a bad one doesn't affect those after it.
class JsonReader : public RecordReader {
 public:
  explicit JsonReader(TextInput input) : input_(std::move(input)) {}

  bool next(Record& record) override {
    input_.finish(value_end_);
    if (state_ == State::kStart) open();
    while (state_ != State::kEnd && !to_element()) close_array();
    if (state_ == State::kEnd) return false;
    state_ = State::kAfterElement;
    RawPiece piece;
    input_.cut(value_end_, piece);
    if (value_end_.open()) fail("the array has no closing ']'");
    take_object(input_.text_of(piece), input_, piece, record);
    return true;
  }

 private:
  enum class State { kStart, kBeforeElements, kAfterElement, kEnd };

  void open() {
    input_.skip_space();
    int c = input_.peek();
    if (c == -1) {
      state_ = State::kEnd;
    } else if (c == '[') {
      input_.skip(1);
      state_ = State::kBeforeElements;
    } else if (c == '{') {
      input_.skip(1);
      within_object_ = true;
      find_array(true);
    } else {
      fail(kWhatIsRead);
    }
  }

  /// Steps to the next element; false after the end of the array.
  bool to_element() {
    input_.skip_space();
    if (take(']')) return false;
    if (state_ == State::kAfterElement) {
      if (input_.peek() == -1) fail("the array has no closing ']'");
      if (!take(',')) fail("expected ',' or ']' after an element of the array");
      input_.skip_space();
    }
    int c = input_.peek();
    if (c == -1) fail("the array has no closing ']'");
    if (std::string_view(",:]}").find(static_cast<char>(c)) != std::string_view::npos) {
      fail("an element of the array is missing");
    }
    return true;
  }

  void close_array() {
    if (within_object_) return find_array(false);
    state_ = State::kEnd;
    expect_end("array");
  }

  /// Parses a value that isn't a record; an error in it ends the reading of the file.
  template <class Parse>
  auto parse_piece(Parse parse) {
    RawPiece piece;
    try {
      input_.cut(value_end_, piece);
      if (value_end_.open()) fail("the file ends inside a value");
      return parse(input_.text_of(piece));
    } catch (const BadRecord& bad) {
      throw InputError("{}", bad.what());
    } catch (const JsonFault& fault) {
      throw InputError("{}: {}.", input_.place(piece, fault.offset), fault.why);
    }
  }

  /// Steps through the members of the object to the array of its elements, or to its end.
  void find_array(bool first) {
    for (;; first = false) {
      input_.skip_space();
      if (take('}')) return close_object();
      if (!first && !take(',')) fail("expected ',' or '}' after a value of the object");
      input_.skip_space();
      if (input_.peek() != '"') fail("expected a key in quotes");
      std::string key = parse_piece([](std::string_view text) { return read_string(text); });
      input_.skip_space();
      if (!take(':')) fail("expected ':' after a key");
      input_.skip_space();
      if (is_array_of_objects()) {
        if (!key_.empty())
          fail(fmt::format("'{}' and '{}' are both arrays of objects; only one can be read", key_, key));
        key_ = key;
        state_ = State::kBeforeElements;
        return input_.skip(1);
      }
      if (input_.peek() == -1) fail("the object has no closing '}'");
      parse_piece([](std::string_view text) { return check_json(text); });
    }
  }

  bool is_array_of_objects() {
    if (input_.peek() != '[') return false;
    size_t ahead = 1;
    while (ahead < kMaxRecordBytes && is_space(input_.peek(ahead))) ++ahead;
    return input_.peek(ahead) == '{';
  }

  void close_object() {
    if (key_.empty()) fail(kWhatIsRead);
    state_ = State::kEnd;
    expect_end("object");
  }

  void expect_end(std::string_view what) {
    input_.skip_space();
    if (input_.peek() != -1) fail(fmt::format("text follows the end of the {}", what));
  }

  bool take(char c) {
    if (input_.peek() != c) return false;
    input_.skip(1);
    return true;
  }

  static bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

  [[noreturn]] void fail(std::string_view why) const { throw InputError("{}: {}.", input_.place(), why); }

  static constexpr std::string_view kWhatIsRead =
      "a JSON file must be an array of objects [{…}, …], or an object with one such array; for one object on each line "
      "set `format: jsonl`";

  TextInput input_;
  ValueEnd value_end_;
  State state_ = State::kStart;
  bool within_object_ = false;
  std::string key_;  // of the array being read
};

}  // namespace

Reader json_reader(TextInput input) {
  return std::make_unique<JsonReader>(std::move(input));
}

Reader jsonl_reader(TextInput input) {
  return std::make_unique<JsonlReader>(std::move(input));
}

}  // namespace trainer::data
