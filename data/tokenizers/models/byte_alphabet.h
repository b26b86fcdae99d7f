// The 256 characters that represent bytes in byte-level vocabularies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainer::data {

/// Each byte as one character: printable Latin-1 as itself, the rest from U+0100 on (a space is U+0120).
/// Source: GPT-2's byte-level encoding.
class ByteAlphabet {
 public:
  static const ByteAlphabet& instance();

  /// The character of `byte`: one or two bytes of UTF-8.
  std::string_view spelling(unsigned char byte) const {
    return std::string_view(spellings_[byte].data(), spellings_[byte][1] == 0 ? 1 : 2);
  }
  uint32_t code_point(unsigned char byte) const { return codes_[byte]; }
  /// The byte that a code point represents.
  std::optional<unsigned char> byte_of(uint32_t code) const {
    if (code >= bytes_.size() || bytes_[code] < 0) return std::nullopt;
    return static_cast<unsigned char>(bytes_[code]);
  }
  /// Appends the spelling of all `bytes`.
  void spell(std::string_view bytes, std::string& out) const {
    for (char byte : bytes) out += spelling(static_cast<unsigned char>(byte));
  }

 private:
  ByteAlphabet();

  std::array<uint16_t, 256> codes_;
  std::array<std::array<char, 2>, 256> spellings_;
  std::array<int16_t, 0x144> bytes_;
};

}  // namespace trainer::data
