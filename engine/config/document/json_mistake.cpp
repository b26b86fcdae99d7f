#include "engine/config/document/json_mistake.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

using Expected = JsonStop::Expected;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '+' || c == '.';
}

std::string word_at(const std::string& text, std::size_t at) {
  const auto end = std::find_if_not(text.begin() + static_cast<long>(at), text.end(), is_word);
  return shown(text.substr(at, static_cast<std::size_t>(end - text.begin()) - at), 40);
}

/// The last byte in [from, at) that is not whitespace; npos if there is none.
std::size_t structure_before(const std::string& text, std::size_t at, std::size_t from) {
  while (at > from) {
    if (std::string_view(" \t\r\n").find(text[--at]) == std::string_view::npos) return at;
  }
  return std::string::npos;
}

std::string bad_string(const std::string& message) {
  auto says = [&](const char* part) { return message.find(part) != std::string::npos; };
  if (says("missing closing quote")) return "this quote is never closed";
  if (says("(LF)") || says("(CR)")) return "this quote is not closed on its line; write a line break in a text as \\n";
  if (says("(HT)")) return "write a tab in a text as \\t";
  if (says("control character")) return "write a control character in a text as \\u and four hexadecimal digits";
  if (says("4 hex digits")) return "\\u must be followed by four hexadecimal digits";
  if (says("surrogate")) return "half of a pair of \\u escapes is missing";
  return "a backslash must be followed by one of \"\\/bfnrtu; write a literal backslash as \\\\";
}

std::string bad_word(const std::string& word) {
  const std::string low = lower(word);
  for (const char* truth : {"true", "false", "null"}) {
    if (low == truth) return fmt::format("'{}' must be written as {}", word, truth);
  }
  if (low == "none") return fmt::format("'{}' must be written as null", word);
  for (const char* no_number : {"nan", "inf", "infinity", "-inf", "-infinity", "+inf", "+infinity", "-nan"}) {
    if (low == no_number) return fmt::format("JSON has no {}", word);
  }
  const bool number = std::string_view("+-.0123456789").find(word.front()) != std::string_view::npos;
  if (number) return fmt::format("'{}' is not a JSON number", word);
  return fmt::format("the text {} needs double quotes", word);
}

std::string expected_before(const JsonStop& stop, char c) {
  const bool closes = c == '}' || c == ']';
  const char close = stop.open == '{' ? '}' : ']';
  if (closes && stop.open != '\0' && c != close) {
    return fmt::format("the '{}' of line {} is closed by '{}' instead of '{}'", stop.open, stop.open_line, c, close);
  }
  switch (stop.expected) {
    case Expected::kEnd:
      return "there is more text after the end of the document";
    case Expected::kColon:
      return fmt::format("a colon is missing after the key '{}'", shown(stop.key));
    case Expected::kSeparator:
      if (c == ':') return "a colon must follow a key in double quotes";
      return "a comma is missing before this";
    case Expected::kKey:
      return "a key in double quotes is missing here";
    case Expected::kValue:
      break;
  }
  if (stop.open == '{') return fmt::format("the value of '{}' is missing", shown(stop.key));
  return "a value is missing here";
}

std::string at_the_end(const JsonStop& stop) {
  if (stop.open == '\0') return "the document is empty";
  return fmt::format("the file ends inside the '{}' of line {}", stop.open, stop.open_line);
}

}  // namespace

JsonMistake find_mistake(const std::string& text, const JsonStop& stop) {
  const std::size_t at = stop.offset;
  if (at >= text.size()) return {text.size(), at_the_end(stop)};
  const char c = text[at];
  const std::size_t before = structure_before(text, at, stop.previous);
  const bool after_comma = before != std::string::npos && text[before] == ',';

  if (c == '/' || c == '#') return {at, "JSON has no comments"};
  if ((c == '}' || c == ']') && after_comma)
    return {before, fmt::format("there is a comma before the closing '{}'", c)};
  if (stop.expected == Expected::kSeparator && at == stop.previous && is_word(c)) {  // 0123, 0x1f, 1_000
    std::size_t start = at;
    while (start > 0 && is_word(text[start - 1])) --start;
    if (start < at) return {start, bad_word(word_at(text, start))};
  }
  if (c == '"' && stop.message.find("invalid string") != std::string::npos) return {at, bad_string(stop.message)};
  const bool open_place = stop.expected == Expected::kKey || stop.expected == Expected::kValue;
  if (open_place && c == '\'') return {at, "JSON only has double quotes"};
  if (stop.expected == Expected::kKey && is_word(c)) {
    return {at, fmt::format("the key {} needs double quotes", word_at(text, at))};
  }
  if (stop.expected == Expected::kValue) {
    if (stop.message.find("overflow") != std::string::npos) return {at, "this number is too large"};
    if (is_word(c)) return {at, bad_word(word_at(text, at))};
    if (std::string_view(",:]}").find(c) == std::string_view::npos) return {at, "this is not the start of a value"};
  }
  return {at, expected_before(stop, c)};
}

}  // namespace trainer::config
