// UTF-8: validation, and stepping through a text by character (code point).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

/// The offset of the first invalid UTF-8 byte sequence (including overlong forms, surrogates and values beyond
/// U+10FFFF); npos when there is none.
size_t find_invalid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) {
  return find_invalid_utf8(text) == std::string_view::npos;
}

/// ISO 8859-1 as UTF-8.
std::string latin1_to_utf8(std::string_view text);

/// A character and how many bytes it takes.
struct Utf8Character {
  char32_t code;
  size_t bytes;  // 0: the text does not start with valid UTF-8
};

/// The first character of `text`; {0, 0} for an empty text too.
Utf8Character first_character(std::string_view text);

/// True for a byte inside a character, that is, any but its first.
inline bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Where the character begins that byte `at` of `text` belongs to. `at` == text.size() is returned as it is.
inline size_t character_begin(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && is_inside_character(text[at])) --at;
  return at;
}

/// How many characters `text` has.
size_t count_characters(std::string_view text);

/// Appends the UTF-8 of `code`, at most U+10FFFF.
void append_character(std::string& text, char32_t code);

}  // namespace trainer
