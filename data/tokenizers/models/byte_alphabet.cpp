#include "data/tokenizers/models/byte_alphabet.h"

namespace trainer::data {

const ByteAlphabet& ByteAlphabet::instance() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    const auto code = static_cast<uint16_t>(printable ? byte : next++);
    codes_[byte] = code;
    bytes_[code] = static_cast<int16_t>(byte);
    if (code < 0x80) {
      spellings_[byte] = {static_cast<char>(code), 0};
    } else {
      spellings_[byte] = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
}

}  // namespace trainer::data
