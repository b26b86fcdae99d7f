#include "engine/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace trainer {
namespace {

/// The length of the UTF-8 sequence at the start of `text`; 0 when it is invalid.
size_t sequence_length(std::string_view text) {
  auto byte = [&](size_t i) -> uint32_t { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  uint32_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    uint32_t code = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6;
    bool surrogate = code >= 0xD800 && code < 0xE000;
    return follows(1) && follows(2) && code >= 0x800 && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    uint32_t code = (first & 0x07) << 18 | (byte(1) & 0x3F) << 12;
    return follows(1) && follows(2) && follows(3) && code >= 0x10000 && code < 0x110000 ? 4 : 0;
  }
  return 0;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const size_t length = sequence_length(text);
  if (length == 0 || text.empty()) return {0, 0};
  const auto first = static_cast<uint8_t>(text[0]);
  if (length == 1) return {first, 1};
  char32_t code = first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3FU);
  return {code, length};
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_inside_character(c); }));
}

void append_character(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto add_rest = [&](int bits) { add(0x80 | (code >> bits & 0x3F)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add_rest(6);
  } else {
    add(0xF0 | code >> 18);
    add_rest(12);
    add_rest(6);
  }
  add_rest(0);
}

size_t find_invalid_utf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  for (size_t i = 0; i < text.size();) {
    uint64_t word = kHighBits;
    if (text.size() - i >= sizeof word) std::memcpy(&word, text.data() + i, sizeof word);
    if ((word & kHighBits) == 0) {  // eight ASCII characters
      i += sizeof word;
      continue;
    }
    size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string latin1_to_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  for (char c : text) {
    auto code = static_cast<uint8_t>(c);
    if (code < 0x80) {
      result += c;
    } else {
      result += static_cast<char>(0xC0 | code >> 6);
      result += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return result;
}

}  // namespace trainer
