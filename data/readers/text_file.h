// A whole text file, checked, and its lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trainer::data {

/// Valid UTF-8 without a byte order mark.
struct TextFile {
  std::string path;  // for messages
  std::string text;
};

/// Reads `path`, converting it from `encoding`: utf-8 or latin-1.
/// Errors: InputError when it can't be read or, with the line, when it is no such text.
TextFile open_text(const std::string& path, const std::string& encoding);

/// As open_text, from text in memory.
TextFile make_text(std::string path, std::string text, const std::string& encoding = "utf-8");

/// Calls `take(line number from 1, line without its end)` for each line that isn't blank. Lines end with LF or CRLF.
/// Errors: InputError for a line longer than kMaxLineBytes.
void for_each_line(const TextFile& file, const std::function<void(int64_t, std::string_view)>& take);

inline constexpr size_t kMaxLineBytes = 16u << 20;

/// `text` without spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace trainer::data
