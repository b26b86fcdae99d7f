#include "data/chat/jinja/write.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <utf8proc.h>

#include "data/chat/jinja/text.h"
#include "engine/base/utf8.h"

namespace trainer::data::jinja {
namespace {

/// The shortest digits that give this number, in Python's format.
std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[400];
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_escaped(char32_t c, char quote, std::string& out) {
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n' || c == '\r' || c == '\t') {
    out += c == '\n' ? "\\n" : (c == '\r' ? "\\r" : "\\t");
  } else if (is_printable(c)) {
    append_character(out, c);
  } else {
    const auto code = static_cast<uint32_t>(c);
    out += code < 0x100 ? fmt::format("\\x{:02x}", code)
                        : (code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code));
  }
}

std::string quoted_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos,
             has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) append_escaped(next_character(text, at), quote, out);
  return out + quote;
}

/// Python's repr, which equals str except for strings.
class Writer {
 public:
  Writer(Budget& budget, std::string& out) : budget_(budget), out_(out) {}

  void write(const Value& value) {
    budget_.step();
    const size_t before = out_.size();
    if (value.is<SequencePtr>())
      write_sequence(*value.as<SequencePtr>());
    else if (value.is<DictPtr>())
      write_dict(*value.as<DictPtr>());
    else
      out_ += plain(value);
    budget_.make(out_.size() - before);
  }

 private:
  static std::string plain(const Value& value) {
    if (value.is<None>()) return "None";
    if (value.is<Undefined>()) return "Undefined";
    if (value.is<bool>()) return value.as<bool>() ? "True" : "False";
    if (value.is<int64_t>()) return std::to_string(value.as<int64_t>());
    if (value.is<double>()) return number_text(value.as<double>());
    if (value.is_markup()) return "Markup(" + quoted_text(value.text()) + ")";
    if (value.is<Text>()) return quoted_text(value.text());
    throw BadOperation("a {} can't be printed", value.type());
  }

  void write_sequence(const Sequence& sequence) {
    using Kind = Sequence::Kind;
    if (sequence.kind != Kind::kList && sequence.kind != Kind::kTuple)
      throw BadOperation("this sequence can't be printed; put `| list` after it");
    const bool list = sequence.kind == Kind::kList;
    out_ += list ? '[' : '(';
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      write(sequence.items[i]);
    }
    if (!list && sequence.items.size() == 1) out_ += ',';
    out_ += list ? ']' : ')';
  }

  void write_dict(const Dict& dict) {
    out_ += '{';
    for (const auto& [key, item] : dict.items) {
      if (&key != &dict.items.front().first) out_ += ", ";
      write(key);
      out_ += ": ";
      write(item);
    }
    out_ += '}';
  }

  Budget& budget_;
  std::string& out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget, std::string& out) : style_(style), budget_(budget), out_(out) {}

  void write(const Value& value) {
    budget_.step();
    const size_t before = out_.size();
    if (value.is<Text>())
      write_text(value.text());
    else if (value.is<DictPtr>())
      write_dict(*value.as<DictPtr>());
    else if (value.is_sequence(Sequence::Kind::kList) || value.is_sequence(Sequence::Kind::kTuple))
      write_list(*value.as<SequencePtr>());
    else
      out_ += plain(value);
    budget_.make(out_.size() - before);
  }

 private:
  static std::string plain(const Value& value) {
    if (value.is<None>()) return "null";
    if (value.is<bool>()) return value.as<bool>() ? "true" : "false";
    if (value.is<int64_t>()) return std::to_string(value.as<int64_t>());
    if (!value.is<double>()) throw BadOperation("a {} can't be written as JSON", value.type());
    const double number = value.as<double>();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return number_text(number);
  }

  void write_character(char32_t c) {
    const auto code = static_cast<uint32_t>(c);
    static constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t found = code < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
    if (found != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[found];
    } else if (code < 0x20 || (style_.ascii && code >= 0x7F && code < 0x10000 && code != 0x7F)) {
      out_ += fmt::format("\\u{:04x}", code);
    } else if (style_.ascii && code >= 0x10000) {
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
    } else {
      append_character(out_, c);
    }
  }

  void write_text(std::string_view text) {
    out_ += '"';
    for (size_t at = 0; at < text.size();) write_character(next_character(text, at));
    out_ += '"';
  }

  void new_line() {
    if (!style_.spread) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += style_.indent;
  }

  template <class Items, class WriteItem>
  void write_items(const Items& items, char open, char close, const WriteItem& write_item) {
    out_ += open;
    if (!items.empty()) {
      ++level_;
      bool first = true;
      for (const auto& item : items) {
        if (!first) out_ += style_.comma;
        first = false;
        new_line();
        write_item(item);
      }
      --level_;
      new_line();
    }
    out_ += close;
  }

  void write_list(const Sequence& sequence) {
    write_items(sequence.items, '[', ']', [&](const Value& item) { write(item); });
  }

  void write_dict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sorted)
      std::stable_sort(items.begin(), items.end(), [](auto* a, auto* b) { return compare(a->first, b->first) < 0; });
    write_items(items, '{', '}', [&](const auto* item) {
      write_text(item->first.template is<Text>() ? item->first.text() : plain(item->first));
      out_ += style_.colon;
      write(item->second);
    });
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string& out_;
  int level_ = 0;
};

}  // namespace

std::string text_of(const Value& value, Budget& budget) {
  if (value.is<Text>()) return value.text();
  if (value.is<Undefined>()) return "";
  std::string out;
  Writer(budget, out).write(value);
  return out;
}

std::string json_of(const Value& value, const JsonStyle& style, Budget& budget) {
  std::string out;
  JsonWriter(style, budget, out).write(value);
  return out;
}

}  // namespace trainer::data::jinja
