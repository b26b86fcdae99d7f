#include "data/chat/jinja/string_literal.h"

#include <charconv>

#include "data/chat/jinja/failure.h"
#include "data/chat/jinja/text.h"
#include "engine/base/utf8.h"

namespace trainer::data::jinja {
namespace {

/// The character of `count` hexadecimal (or up to `count` octal) digits at `at`; moves `at` past them.
char32_t coded(std::string_view inner, size_t& at, size_t count, int base, int line) {
  const std::string_view digits = inner.substr(at, count);
  uint32_t code = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
  const auto used = static_cast<size_t>(read.ptr - digits.data());
  if ((base == 16 && used != count) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) || code == 0)
    throw Failure(line, "\\{} is not a valid character", inner.substr(at > 0 ? at - 1 : 0, count + 1));
  at += used;
  return code;
}

/// Reads the escape sequence whose letter is at `at`; false when it isn't one.
bool escape(std::string_view inner, size_t& at, int line, std::string& out) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv", kCharacters = "\\'\"\a\b\f\n\r\t\v";
  const char letter = inner[at];
  if (const size_t found = kLetters.find(letter); found != std::string_view::npos) {
    out += kCharacters[found];
    ++at;
  } else if (letter == '\n') {
    ++at;
  } else if (letter == 'x' || letter == 'u' || letter == 'U') {
    append_character(out, coded(inner, ++at, letter == 'x' ? 2 : (letter == 'u' ? 4 : 8), 16, line));
  } else if (letter >= '0' && letter <= '7') {
    append_character(out, coded(inner, at, 3, 8, line));
  } else if (letter == 'N') {
    throw Failure(line, "\\N: named characters are not supported");
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string string_literal(std::string_view inner, int line) {
  std::string out;
  for (size_t at = 0; at < inner.size();) {
    if (inner[at] != '\\' || at + 1 >= inner.size()) {
      out += inner[at++];
    } else if (size_t behind = at + 1; escape(inner, behind, line, out)) {
      at = behind;
    } else {
      out += inner[at++];  // not an escape: the backslash stays
    }
  }
  return out;
}

}  // namespace trainer::data::jinja
