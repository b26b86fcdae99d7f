#include "engine/report/html.h"

#include <fmt/format.h>

#include "engine/base/bounded_json.h"
#include "engine/base/safe_text.h"

namespace trainer::report {
namespace {

std::string replaced(std::string_view text, const std::vector<std::pair<char, const char*>>& codes) {
  std::string result;
  for (const char c : text) {
    const char* code = nullptr;
    for (const auto& [from, to] : codes)
      if (c == from) code = to;
    if (code != nullptr)
      result += code;
    else
      result += c;
  }
  return result;
}

/// The same text as valid UTF-8.
std::string valid(std::string_view text) {
  using Json = nlohmann::json;
  const std::string quoted = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return bounded_json(quoted).get<std::string>();
}

std::string cell(const char* element, const Cell& content) {
  const std::string style = *content.style == '\0' ? "" : fmt::format(" class=\"{}\"", content.style);
  return fmt::format("<{}{}>{}</{}>", element, style, escaped(content.text), element);
}

}  // namespace

std::string escaped(std::string_view text) {
  return replaced(safe_text(valid(text)),
                  {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

std::string script_json(const nlohmann::json& value) {
  return replaced(value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace),
                  {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

std::string table(const std::vector<std::string>& headings, const std::vector<std::vector<Cell>>& rows) {
  std::string text = "<div class=\"scrolls\"><table><thead><tr>";
  for (const std::string& heading : headings) text += cell("th", {heading});
  text += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : rows) {
    text += "<tr>";
    for (const Cell& one : row) text += cell("td", one);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

}  // namespace trainer::report
