// Templates that are written in the configuration itself.
#pragma once

#include <string_view>

namespace trainer::config {

/// True if `data.chat_template` is a Jinja template itself, not the name of a file or of a built-in template.
inline bool is_inline_template(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

}  // namespace trainer::config
