// String literals.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data::jinja {

/// The value of the text between two quotes, with Python's escapes. Errors: Failure with `line`.
std::string string_literal(std::string_view inner, int line);

}  // namespace trainer::data::jinja
