// HTML from text that others wrote: every function escapes what it is given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace trainer::report {

/// `text` for the inside of an element or of an attribute in quotes. Secrets are replaced as in logs, control and
/// directional characters are shown as codes, and bytes that are not UTF-8 as the replacement character.
std::string escaped(std::string_view text);

/// JSON for the inside of a <script> element: no markup in it can end the element.
std::string script_json(const nlohmann::json& value);

struct Cell {
  std::string text;
  const char* style = "";  // its CSS class
};

/// A table with a row of headings.
std::string table(const std::vector<std::string>& headings, const std::vector<std::vector<Cell>>& rows);

}  // namespace trainer::report
