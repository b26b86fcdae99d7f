// How the tokens of a .bin file are stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainer::data {

/// Megatron's numbers of the types, as they stand in the header of an .idx file.
enum class TokenType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat64 = 6,
  kFloat32 = 7,
  kUint16 = 8,
};

/// Bytes of a token; 0 when `code` is no type.
int64_t token_bytes(TokenType code);

/// The type Megatron writes for a vocabulary of that size.
TokenType token_type_for(int64_t vocabulary);

}  // namespace trainer::data
