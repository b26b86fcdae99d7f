// The pieces that represent single bytes: <0x00> … <0xFF>.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace trainer::data {

/// The ids of the 256 byte pieces; -1 for those that `find` (piece → id or -1) doesn't find.
template <class Find>
std::array<int32_t, 256> find_byte_pieces(Find&& find) {
  std::array<int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) ids[byte] = find(std::string_view(fmt::format("<0x{:02X}>", byte)));
  return ids;
}

}  // namespace trainer::data
