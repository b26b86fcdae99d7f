#include "engine/metrics/terminal_text.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace trainer::metrics {
namespace {

struct Letter {
  char32_t code;
  size_t bytes;  // 0: not UTF-8
};

/// The first letter of `text`, which is not empty.
Letter first_letter(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {0, 0};
  char32_t code = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};  // below: overlong
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {0, 0};
  return {code, length};
}

struct Range {
  char32_t first, last;
};

/// Unicode's East Asian wide and full-width blocks, and emoji.
constexpr Range kWide[] = {
    {0x1100, 0x115F}, {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
    {0xA960, 0xA97C}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
};
/// Combining marks, joiners and variation selectors of the common scripts.
constexpr Range kZero[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x093C, 0x093C}, {0x0941, 0x0948},
    {0x094D, 0x094D}, {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
    {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
};

template <size_t kCount>
bool in(const Range (&ranges)[kCount], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [code](const Range& range) { return code >= range.first && code <= range.last; });
}

size_t width_of(char32_t code) {
  return in(kZero, code) ? 0 : in(kWide, code) ? 2 : 1;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    const bool control = letter.code < 0x20 || (letter.code >= 0x7F && letter.code < 0xA0) || letter.code == 0x2028 ||
                         letter.code == 0x2029 || (letter.code >= 0x202A && letter.code <= 0x202E);
    if (letter.bytes == 0) {
      line += '?';
    } else if (control) {
      line += ' ';
    } else {
      line += text.substr(0, letter.bytes);
    }
    text.remove_prefix(std::max<size_t>(letter.bytes, 1));
  }
  return line;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    width += width_of(letter.code);
    text.remove_prefix(std::max<size_t>(letter.bytes, 1));
  }
  return width;
}

std::string truncated(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  size_t width = 0;
  size_t end = 0;
  while (end < text.size()) {
    const Letter letter = first_letter(text.substr(end));
    width += width_of(letter.code);
    if (width > columns - 1) break;  // one column is the '…''s
    end += std::max<size_t>(letter.bytes, 1);
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string fitted(std::string_view text, size_t columns) {
  std::string cut = truncated(text, columns);
  return cut.append(columns - display_width(cut), ' ');
}

size_t terminal_width(int fd, size_t otherwise) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace trainer::metrics
