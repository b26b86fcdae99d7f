// JSON that a stranger may have written, with bounded nesting.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace trainer {

constexpr int kMaxJsonDepth = 64;

/// Whether `text` nests lists and objects deeper than `limit`. Looks at brackets only; the text may be invalid.
inline bool json_is_deep(std::string_view text, int limit = kMaxJsonDepth) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// Parses `text`; a discarded value when it is not JSON, or nested deeper than kMaxJsonDepth. nlohmann's parser takes
/// any depth, but copying, comparing and writing a value recurse once per level and overflow the stack.
template <class Json = nlohmann::json>
Json bounded_json_or_none(std::string_view text) {
  if (json_is_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Parses `text`. Errors: InputError when it is nested deeper than kMaxJsonDepth; nlohmann's when it is not JSON.
template <class Json = nlohmann::json>
Json bounded_json(std::string_view text) {
  if (json_is_deep(text)) throw InputError("JSON nested deeper than {} levels", kMaxJsonDepth);
  return Json::parse(text);
}

}  // namespace trainer
