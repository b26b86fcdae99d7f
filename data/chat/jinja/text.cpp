#include "data/chat/jinja/text.h"

#include <algorithm>
#include <cstring>

#include <utf8proc.h>

#include "data/chat/jinja/failure.h"
#include "engine/base/utf8.h"

namespace trainer::data::jinja {
namespace {

bool is_cased(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

void append_upper(char32_t c, std::string& out) {
  if (c == U'ß')
    out += "SS";
  else
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(char32_t c, std::string& out) {
  if (c == U'ß')
    out += "Ss";
  else
    append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(char32_t c, std::string& out) {
  append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::vector<std::string> split_at_spaces(std::string_view text, int64_t count) {
  std::vector<std::string> parts;
  for (text = stripped(text, true, false); !text.empty(); text = stripped(text, true, false)) {
    if (count >= 0 && static_cast<int64_t>(parts.size()) == count) {
      parts.emplace_back(stripped(text, false, true));
      break;
    }
    size_t end = 0;
    for (size_t at = 0; at < text.size() && !is_space(next_character(text, at));) end = at;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string> split_from_left(std::string_view text, std::string_view separator, int64_t count) {
  std::vector<std::string> parts;
  while (count < 0 || static_cast<int64_t>(parts.size()) < count) {
    const size_t found = find_text(text, separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::string backward(std::string_view text) {
  return {text.rbegin(), text.rend()};
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t count, bool from_right) {
  if (!from_right) return split_from_left(text, separator, count);
  std::vector<std::string> parts = split_from_left(backward(text), backward(separator), count);
  for (std::string& part : parts) part = backward(part);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

char32_t next_character(std::string_view text, size_t& at) {
  utf8proc_int32_t c = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto used = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  if (used <= 0) {
    ++at;
    return 0xFFFD;
  }
  at += static_cast<size_t>(used);
  return static_cast<char32_t>(c);
}

size_t length(std::string_view text) {
  return count_characters(text);
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0, begin = 0; at < text.size(); begin = at) {
    next_character(text, at);
    out.push_back(text.substr(begin, at - begin));
  }
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view stripped(std::string_view text, bool left, bool right, std::optional<std::string_view> set) {
  const auto goes = [&](std::string_view character) {
    size_t at = 0;
    return set ? set->find(character) != std::string_view::npos : is_space(next_character(character, at));
  };
  while (left && !text.empty()) {
    size_t at = 0;
    next_character(text, at);
    if (!goes(text.substr(0, at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    const size_t at = character_begin(text, text.size() - 1);
    if (!goes(text.substr(at))) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

std::string upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) append_upper(next_character(text, at), out);
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) append_lower(next_character(text, at), out);
  return out;
}

std::string capitalized(std::string_view text) {
  std::string out;
  if (text.empty()) return out;
  size_t at = 0;
  append_title(next_character(text, at), out);
  return out + lower(text.substr(at));
}

std::string titled(std::string_view text, bool by_words) {
  std::string out;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (!begins)
      append_lower(c, out);
    else if (by_words)
      append_upper(c, out);
    else
      append_title(c, out);
    const bool breaks = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    begins = by_words ? breaks : !is_cased(c);
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

size_t find_text(std::string_view text, std::string_view part, size_t start) {
  if (start > text.size()) return std::string_view::npos;
  const void* const found = memmem(text.data() + start, text.size() - start, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  size_t at = 0;
  while (count != 0) {
    size_t found = find_text(text, from, at);
    if (from.empty()) {  // before every character, and at the end
      found = at;
      if (at >= text.size()) {
        out += to;
        return out;
      }
      next_character(text, found);
      out += to;
      out += text.substr(at, found - at);
      at = found;
    } else {
      if (found == std::string_view::npos) break;
      out += text.substr(at, found - at);
      out += to;
      at = found + from.size();
    }
    if (count > 0) --count;
  }
  out += text.substr(at);
  return out;
}

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator, int64_t count,
                               bool from_right) {
  if (!separator) {
    if (from_right && count >= 0) throw BadOperation("`rsplit` with a count needs a separator");
    return split_at_spaces(text, count);
  }
  if (separator->empty()) throw BadOperation("`split` with an empty separator");
  return split_at(text, *separator, count, from_right);
}

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t at = 0, before = 0; at < text.size(); before = at) {
    const char32_t c = next_character(text, at);
    if (!ends_line(c)) continue;
    out.emplace_back(text.substr(begin, before - begin));
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    begin = at;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

}  // namespace trainer::data::jinja
