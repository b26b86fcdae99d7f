#include "data/json/parse_json.h"

#include <algorithm>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// The position of byte `offset` of `text` as "file:line:column".
std::string place(std::string_view text, size_t offset, const std::string& file, int64_t line, int64_t column) {
  std::string_view before = text.substr(0, std::min(offset, text.size()));
  size_t newline = before.rfind('\n');
  if (newline != std::string_view::npos) {
    line += std::count(before.begin(), before.end(), '\n');
    column = 1;
    before.remove_prefix(newline + 1);
  }
  return fmt::format("{}:{}:{}", file, line, column + static_cast<int64_t>(before.size()));
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file, int64_t line, int64_t column) {
  if (json_is_deep(text)) throw InputError("{}:{}: JSON nested deeper than {} levels.", file, line, kMaxJsonDepth);
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    throw InputError("{}: not valid JSON from here on.", place(text, offset, file, line, column));
  } catch (const nlohmann::json::exception&) {  // a number outside the range of double
    throw InputError("{}:{}: a number is out of the range of a double.", file, line);
  }
}

}  // namespace trainer::data
