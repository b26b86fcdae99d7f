#include "engine/base/terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <utf8proc.h>

#include "engine/base/utf8.h"

namespace trainer {
namespace {

size_t width_of(const Utf8Character& character) {
  if (character.bytes == 0) return 1;
  const auto code = static_cast<utf8proc_int32_t>(character.code);
  if (utf8proc_category(code) == UTF8PROC_CATEGORY_CN) return 1;  // newer than the library's Unicode
  return static_cast<size_t>(utf8proc_charwidth(code));
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const Utf8Character letter = first_character(text);
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
    const Utf8Character letter = first_character(text);
    width += width_of(letter);
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
    const Utf8Character letter = first_character(text.substr(end));
    width += width_of(letter);
    if (width > columns - 1) break;  // one column is the '…''s
    end += std::max<size_t>(letter.bytes, 1);
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string fitted(std::string_view text, size_t columns) {
  std::string cut = truncated(text, columns);
  return cut.append(columns - display_width(cut), ' ');
}

std::string wrapped(std::string_view text, size_t columns, size_t hang) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    std::string row(line.substr(0, indent));
    bool first = true;  // on this row
    for (line.remove_prefix(indent); !line.empty();) {
      const size_t word = std::min(line.find(' ', 1), line.size());  // with the blank before it
      if (!first && display_width(row) + display_width(line.substr(0, word)) > columns) {
        out += row + "\n";
        row.assign(indent + hang, ' ');
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        first = true;
        continue;
      }
      row += line.substr(0, word);
      line.remove_prefix(word);
      first = false;
    }
    out += row;
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string wrapped_for(int fd, std::string_view text) {
  return isatty(fd) == 1 ? wrapped(text, terminal_width(fd), 2) : std::string(text);
}

bool wants_color() {
  const char* const unwanted = std::getenv("NO_COLOR");
  return isatty(STDERR_FILENO) == 1 && (unwanted == nullptr || *unwanted == '\0');
}

size_t terminal_width(int fd, size_t otherwise) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace trainer
