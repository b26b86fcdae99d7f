// Text of any language in columns of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer::metrics {

/// `text` as one line: line breaks, tabs and other control characters become spaces, and bytes that are no UTF-8 '?'.
std::string one_line(std::string_view text);

/// Columns that `text` (as `one_line` gives it) takes: 2 for East Asian letters and emoji, 0 for combining marks.
size_t display_width(std::string_view text);

/// `text` cut to at most `columns`, ending in '…' when something is missing.
std::string truncated(std::string_view text, size_t columns);

/// `truncated`, and filled with spaces to exactly `columns`.
std::string fitted(std::string_view text, size_t columns);

/// Columns of the terminal behind `fd`; `otherwise` when it is none.
size_t terminal_width(int fd, size_t otherwise = 100);

}  // namespace trainer::metrics
