#include "data/tokenizers/models/token_model.h"

#include "data/tokenizers/models/byte_alphabet.h"

namespace trainer::data {

void TokenModel::encode_bytes(std::string_view bytes, std::vector<Token>& out) const {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  std::string text;
  std::vector<uint32_t> byte_at;  // the byte that each position of `text` spells
  for (size_t i = 0; i < bytes.size(); ++i) {
    text += alphabet.spelling(static_cast<unsigned char>(bytes[i]));
    byte_at.resize(text.size(), static_cast<uint32_t>(i));
  }
  byte_at.push_back(static_cast<uint32_t>(bytes.size()));
  const size_t before = out.size();
  encode(text, out);
  for (size_t i = before; i < out.size(); ++i) {
    out[i].begin = byte_at[out[i].begin];
    // A token may end inside a character's spelling: it then includes the byte.
    out[i].end = out[i].end == 0 ? 0 : byte_at[out[i].end - 1] + 1;
  }
}

}  // namespace trainer::data
