#include "data/tokenizers/text/characters.h"

#include <utf8proc.h>

#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool between(utf8proc_category_t value, utf8proc_category_t first, utf8proc_category_t last) {
  return value >= first && value <= last;
}

bool is_ascii_punctuation(char32_t code) {
  return (code > 0x20 && code < 0x30) || (code > 0x39 && code < 0x41) || (code > 0x5A && code < 0x61) ||
         (code > 0x7A && code < 0x7F);
}

/// The length of the longest prefix of `text` that begins a well-formed sequence without completing it; at least 1.
size_t broken_length(std::string_view text) {
  auto byte = [&](size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  unsigned first = byte(0);
  if (first < 0xC2 || first > 0xF4) return 1;
  unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (first < 0xE0 || byte(1) < low || byte(1) > high) return 1;
  if (first < 0xF0 || (byte(2) & 0xC0) != 0x80) return 2;
  return 3;
}

}  // namespace

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word_char(char32_t code) {
  if (code < 0x80) return (code | 0x20) - 'a' < 26 || code - '0' < 10 || code == '_';
  bool letter_like_symbol = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                            (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  bool joiner = code == 0x200C || code == 0x200D;
  utf8proc_category_t kind = category(code);
  return letter_like_symbol || joiner || between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) ||
         kind == UTF8PROC_CATEGORY_PC;
}

bool is_mark(char32_t code) {
  return code >= 0x300 && between(category(code), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_nonspacing_mark(char32_t code) {
  return code >= 0x300 && category(code) == UTF8PROC_CATEGORY_MN;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) return is_ascii_punctuation(code);
  return between(category(code), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_numeric(char32_t code) {
  if (code < 0x80) return code - '0' < 10;
  return between(category(code), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_other(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  return between(category(code), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

void append_lower(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code - 'A' < 26 ? code + 32 : code);
  } else if (code == 0x130) {
    text += "i\u0307";
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

bool repair_utf8(std::string_view text, std::string& repaired) {
  if (is_ascii(text)) return false;
  size_t broken = find_invalid_utf8(text);
  if (broken == std::string_view::npos) return false;
  while (broken != std::string_view::npos) {
    repaired += text.substr(0, broken);
    repaired += kReplacement;
    text.remove_prefix(broken);
    text.remove_prefix(broken_length(text));
    broken = find_invalid_utf8(text);
  }
  repaired += text;
  return true;
}

}  // namespace trainer::data
