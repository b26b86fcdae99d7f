// UTF-8 validation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

/// The offset of the first invalid UTF-8 byte sequence (including overlong forms, surrogates and values beyond
/// U+10FFFF); npos when there is none.
size_t find_invalid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) {
  return find_invalid_utf8(text) == std::string_view::npos;
}

/// ISO 8859-1 as UTF-8.
std::string latin1_to_utf8(std::string_view text);

}  // namespace trainer
