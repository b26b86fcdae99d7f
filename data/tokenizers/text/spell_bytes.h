// Spells bytes as characters, with origins.
#pragma once

#include "data/tokenizers/models/byte_alphabet.h"
#include "data/tokenizers/text/aligned_text.h"

namespace trainer::data {

/// Appends the bytes [begin, end) of `text` spelled in the byte-level alphabet, each with the origin of its character.
inline void spell_bytes(const AlignedText& text, size_t begin, size_t end, Rewrite& out) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  std::string_view view = text.view();
  for (size_t at = begin; at < end; ++at) {
    out.insert_for(alphabet.spelling(static_cast<unsigned char>(view[at])), at);
  }
}

}  // namespace trainer::data
