#include "data/tokenizers/normalizers/base64.h"

#include <cstdint>

namespace trainer::data {

bool decode_base64(std::string_view text, std::string& bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return false;
  size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size() - padding; ++i) {
    size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)));
  }
  return true;
}

}  // namespace trainer::data
