#include "data/readers/json_object.h"
#include "engine/base/utf8.h"

#include <cstdint>
#include <cstring>
#include <unordered_set>

namespace trainer::data {
namespace {

constexpr int kMaxDepth = 64;

/// Detects duplicate keys in an object.
class KeysSeen {
 public:
  /// True when the last field's key is new.
  bool add(const Record& record) {
    const auto& fields = record.fields;
    const std::string& name = fields.back().first;
    if (fields.size() > kFew) return seen_.insert(name).second;
    for (size_t i = 0; i + 1 < fields.size(); ++i) {
      if (fields[i].first == name) return false;
    }
    if (fields.size() == kFew) {
      for (const auto& field : fields) seen_.insert(field.first);
    }
    return true;
  }

 private:
  static constexpr size_t kFew = 16;  // a set for every record would cost more than comparing
  std::unordered_set<std::string> seen_;
};

/// A parser by the grammar of RFC 8259.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  void object(Record& record) {
    skip_space();
    if (peek() != '{') throw JsonFault{Fault::kNotObject, at_, "a record must be an object {\"column\": \"text\", …}"};
    KeysSeen keys;
    members([&] {
      std::string& name = record.fields.emplace_back().first;
      size_t start = at_;
      string(&name);
      if (!keys.add(record)) fail("a key appears twice in the object", start);
      std::string& value = record.fields.back().second;
      colon();
      if (peek() == '"') return string(&value);
      record.json.resize(record.fields.size());
      record.json.back() = true;
      any_value(1, &value);
      if (value == "null") value.clear();
    });
    end();
  }

  void value_alone() {
    skip_space();
    any_value(0, nullptr);
    end();
  }

  std::string string_alone() {
    std::string text;
    string(&text);
    end();
    return text;
  }

 private:
  /// Skips a value; appends it, without blanks, to `copy` if it isn't null.
  void any_value(int depth, std::string* copy) {
    if (depth > kMaxDepth) fail("nested deeper than 64 levels", at_);
    size_t start = at_;
    switch (peek()) {
      case '{':
        if (copy) *copy += '{';
        members([&] {
          string_as_it_is(copy);
          colon();
          if (copy) *copy += ':';
          any_value(depth + 1, copy);
          if (copy && comes_next(',')) *copy += ',';
        });
        if (copy) *copy += '}';
        return;
      case '[':
        return array(depth, copy);
      case '"':
        return string_as_it_is(copy);
      case 't':
        word("true");
        break;
      case 'f':
        word("false");
        break;
      case 'n':
        word("null");
        break;
      default:
        number();
    }
    if (copy) *copy += text_.substr(start, at_ - start);
  }

  /// Calls `member` at the key of each member of the object that begins here.
  template <class Member>
  void members(Member member) {
    ++at_;
    skip_space();
    if (take('}')) return;
    for (;;) {
      member();
      skip_space();
      if (take('}')) return;
      if (!take(',')) fail("expected ',' or '}'", at_);
      skip_space();
    }
  }

  void array(int depth, std::string* copy) {
    ++at_;
    if (copy) *copy += '[';
    skip_space();
    while (!take(']')) {
      any_value(depth + 1, copy);
      skip_space();
      if (peek() == ']') continue;
      if (!take(',')) fail("expected ',' or ']'", at_);
      if (copy) *copy += ',';
      skip_space();
      if (peek() == ']') fail("expected a value", at_);
    }
    if (copy) *copy += ']';
  }

  void string_as_it_is(std::string* copy) {
    size_t start = at_;
    string(nullptr);
    if (copy) *copy += text_.substr(start, at_ - start);
  }

  /// Skips a string; appends its value to `text` if it isn't null.
  void string(std::string* text) {
    if (!take('"')) fail("expected a string in quotes", at_);
    for (;;) {
      size_t plain = plain_length(text_.substr(at_));
      if (text) text->append(text_, at_, plain);
      at_ += plain;
      if (take('"')) return;
      if (!take('\\'))
        fail(at_ == text_.size() ? "the text ends inside a string" : "a control character in a string", at_);
      escape(text);
    }
  }

  void escape(std::string* text) {
    static constexpr std::string_view kNames = "\"\\/bfnrtu", kValues = "\"\\/\b\f\n\r\t";
    size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) fail("an invalid escape sequence", at_ - 1);
    ++at_;
    if (which < kValues.size()) {
      if (text) *text += kValues[which];
      return;
    }
    size_t start = at_ - 2;
    uint32_t code = four_digits();
    if (code == 0) throw JsonFault{Fault::kNul, start, "a NUL character, which is not valid in text"};
    bool high = code >= 0xD800 && code < 0xDC00;
    if (high && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      uint32_t low = four_digits();
      if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair", start);
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (high || (code >= 0xDC00 && code <= 0xDFFF)) {
      fail("half of a surrogate pair", start);
    }
    if (text) append_character(*text, code);
  }

  uint32_t four_digits() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      char c = peek();
      bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!letter && !is_digit(c)) fail("expected four hexadecimal digits", at_);
      code = code << 4 | static_cast<uint32_t>(letter ? (c & 0xF) + 9 : c - '0');
    }
    return code;
  }

  void number() {
    size_t start = at_;
    take('-');
    if (!take('0') && !digits()) fail("expected a value", start);
    if (take('.') && !digits()) fail("expected a digit", at_);
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) fail("expected a digit", at_);
    }
  }

  bool digits() {
    size_t start = at_;
    while (is_digit(peek())) ++at_;
    return at_ > start;
  }

  void word(std::string_view name) {
    if (!text_.substr(at_).starts_with(name)) fail("expected a value", at_);
    at_ += name.size();
  }

  void colon() {
    skip_space();
    if (!take(':')) fail("expected ':'", at_);
    skip_space();
  }

  void end() {
    skip_space();
    if (at_ < text_.size()) fail("text after the end of the value", at_);
  }

  bool comes_next(char c) {
    skip_space();
    return peek() == c;
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  [[noreturn]] static void fail(std::string_view why, size_t offset) {
    throw JsonFault{Fault::kNotJson, offset, fmt::format("not valid JSON: {}", why)};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

size_t plain_length(std::string_view text) {
  auto repeated = [](uint64_t byte) { return byte * 0x0101010101010101u; };
  auto has_zero = [&](uint64_t word) { return (word - repeated(1)) & ~word & repeated(0x80); };
  size_t at = 0;
  for (uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    uint64_t control = (word - repeated(0x20)) & ~word & repeated(0x80);
    if (control | has_zero(word ^ repeated('"')) | has_zero(word ^ repeated('\\'))) break;
  }
  while (at < text.size() && text[at] != '"' && text[at] != '\\' && static_cast<unsigned char>(text[at]) >= 0x20) ++at;
  return at;
}

void read_object(std::string_view text, Record& record) {
  Parser(text).object(record);
}

void check_json(std::string_view text) {
  Parser(text).value_alone();
}

std::string read_string(std::string_view text) {
  return Parser(text).string_alone();
}

}  // namespace trainer::data
