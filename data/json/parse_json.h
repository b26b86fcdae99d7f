// Parsing untrusted JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace trainer::data {

/// Parses `text`, which begins at line `line`, column `column` of `file`. Nesting is bounded, because the library
/// copies and destroys values by recursion. Errors: InputError with file, line and column.
nlohmann::json parse_json(std::string_view text, const std::string& file, int64_t line = 1, int64_t column = 1);

}  // namespace trainer::data
