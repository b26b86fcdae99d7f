// The storage types of tokens in a .bin file.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainer::data {

/// Megatron's type codes in the header of an .idx file.
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

/// Bytes of a token; 0 for an unknown code.
int64_t token_bytes(TokenType code);

/// The type that Megatron writes for a vocabulary of this size.
TokenType token_type_for(int64_t vocabulary);

}  // namespace trainer::data
