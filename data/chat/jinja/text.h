// Python's string operations: on characters, not bytes. All strings are UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data::jinja {

/// The character that begins at byte `at`; moves `at` past it.
char32_t next_character(std::string_view text, size_t& at);

/// The number of characters.
size_t length(std::string_view text);
/// Each character as a separate view.
std::vector<std::string_view> characters(std::string_view text);

bool is_space(char32_t character);
/// Without leading and trailing white space (or the characters in `set`).
std::string_view stripped(std::string_view text, bool left, bool right, std::optional<std::string_view> set = {});

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The first character in upper case, the others in lower case.
std::string capitalized(std::string_view text);
/// Every run of letters capitalized. `by_words`: as the filter does, only after white space, -, (, {, [ or <.
std::string titled(std::string_view text, bool by_words);

/// Where `part` begins in `text`, from `start` on; npos if nowhere. In linear time, unlike std::string::find(): a
/// hostile template searches for a long text that nearly matches everywhere.
size_t find_text(std::string_view text, std::string_view part, size_t start = 0);

/// Escapes & < > ' " for HTML.
std::string escaped(std::string_view text);
std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t count = -1);
/// Splits at `separator`, or, without one, at runs of white space; at most `count` times unless it is negative.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator, int64_t count,
                               bool from_right = false);
std::vector<std::string> lines(std::string_view text);

}  // namespace trainer::data::jinja
