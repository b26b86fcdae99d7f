#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

/// The lines of `text`, each after `columns` blanks, without the end of the last one.
inline std::string indented(std::string_view text, std::size_t columns = 2) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::string blanks(columns, ' ');
  std::string out = blanks;
  for (const char c : text) out += c == '\n' ? "\n" + blanks : std::string(1, c);
  return out;
}

}  // namespace trainer
