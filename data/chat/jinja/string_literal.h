// A text in quotes.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data::jinja {

/// What the text between two quotes stands for, by Python's escapes. Errors: Failure with `line`.
std::string string_literal(std::string_view inner, int line);

}  // namespace trainer::data::jinja
