// Text of any language in terminal columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

/// `text` as one line: line breaks, tabs and other control characters become spaces; bytes that are not UTF-8, '?'.
std::string one_line(std::string_view text);

/// Columns that `text` (as `one_line` gives it) takes: 2 for East Asian letters and emoji, 0 for combining marks.
size_t display_width(std::string_view text);

/// `text` truncated to at most `columns`; ends in '…' if truncated.
std::string truncated(std::string_view text, size_t columns);

/// `truncated`, and filled with spaces to exactly `columns`.
std::string fitted(std::string_view text, size_t columns);

/// `text` with lines of more than `columns` broken between words. What continues a line is indented as much as the
/// line, and by `hang` more. A word longer than a line stays whole.
std::string wrapped(std::string_view text, size_t columns, size_t hang = 0);

/// `text` for `fd`: on a terminal wrapped to its width, with a hang of 2; elsewhere unchanged.
std::string wrapped_for(int fd, std::string_view text);

/// True when standard error is a terminal and the user wants colors there (https://no-color.org).
bool wants_color();

/// Columns of the terminal at `fd`; `otherwise` when it is not a terminal.
size_t terminal_width(int fd, size_t otherwise = 100);

}  // namespace trainer
