// Bytes as text.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace trainer {

/// Two lowercase hexadecimal digits for each byte.
inline std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace trainer
