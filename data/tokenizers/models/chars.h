// UTF-8 iteration and a table indexed by character.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/errors.h"

namespace trainer::data {

/// The length of the character at `at` in bytes, by its first byte; never past the end of the text.
inline uint32_t char_length(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const uint32_t length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return length <= text.size() - at ? length : static_cast<uint32_t>(text.size() - at);
}

/// The code point of the `length` bytes at `at`. Below 2^21 for any bytes.
inline uint32_t code_point(std::string_view text, size_t at, uint32_t length) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (length == 1) return first;
  uint32_t code = first & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3F);
  return code;
}

/// @throws InputError for a text whose offsets don't fit in 32 bits.
inline void check_length(std::string_view text) {
  if (text.size() >= UINT32_MAX)
    throw InputError("A text of {} bytes is too long; at most 4 GB are supported.", text.size());
}

/// Ids by code point; empty pages of 256 code points share one page.
class CharTable {
 public:
  CharTable() : pages_((1 << 21) / kPage, 0), ids_(kPage, -1) {}

  void set(uint32_t code, int32_t id) {
    uint32_t& page = pages_[code / kPage];
    if (page == 0) {
      page = static_cast<uint32_t>(ids_.size() / kPage);
      ids_.resize(ids_.size() + kPage, -1);
    }
    ids_[page * kPage + code % kPage] = id;
  }
  /// The id of a code point; -1 for none.
  int32_t find(uint32_t code) const { return ids_[pages_[code / kPage] * kPage + code % kPage]; }

 private:
  static constexpr uint32_t kPage = 256;
  std::vector<uint32_t> pages_;
  std::vector<int32_t> ids_;
};

}  // namespace trainer::data
