#include "data/megatron/token_type.h"

namespace trainer::data {

int64_t token_bytes(TokenType code) {
  switch (code) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kFloat32:
      return 4;
    case TokenType::kInt64:
    case TokenType::kFloat64:
      return 8;
  }
  return 0;
}

TokenType token_type_for(int64_t vocabulary) {
  return vocabulary < 65500 ? TokenType::kUint16 : TokenType::kInt32;
}

}  // namespace trainer::data
