// Character properties for the stages of a tokenizer. All texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/tokenizers/models/chars.h"
#include "engine/base/utf8.h"

namespace trainer::data {

/// A character and its length in bytes.
struct Char {
  char32_t code;
  uint32_t length;
};

inline Char char_at(std::string_view text, size_t at) {
  uint32_t length = char_length(text, at);
  return {code_point(text, at, length), length};
}

/// The character that ends at `end` (> 0).
inline Char char_before(std::string_view text, size_t end) {
  const size_t begin = character_begin(text, end - 1);
  auto length = static_cast<uint32_t>(end - begin);
  return {code_point(text, begin, length), length};
}

inline bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (char byte : text) all |= static_cast<unsigned char>(byte);
  return all < 0x80;
}

/// Unicode's property White_Space.
bool is_white_space(char32_t code);
/// Letters, marks, decimal digits, letter-like numbers and connectors: \w (UTS #18, annex C).
bool is_word_char(char32_t code);
bool is_mark(char32_t code);
bool is_nonspacing_mark(char32_t code);
/// ASCII punctuation and symbols, or Unicode's categories P.
bool is_punctuation(char32_t code);
/// Unicode's categories N.
bool is_numeric(char32_t code);
/// Control, format, surrogate and private-use characters.
bool is_other(char32_t code);

/// Appends the lower-case form of one character: one character, or two for U+0130.
void append_lower(std::string& text, char32_t code);

/// Replaces every ill-formed sequence in `text` by U+FFFD, as Python's errors="replace" does (one for each maximal
/// subpart of a sequence).
/// @returns whether anything was replaced; `repaired` is set only then.
bool repair_utf8(std::string_view text, std::string& repaired);

}  // namespace trainer::data
