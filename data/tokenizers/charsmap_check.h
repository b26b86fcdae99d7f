// Validates the normalization table of a SentencePiece model.
#pragma once

#include <string_view>

namespace trainer::data {

/// Checks a `precompiled_charsmap`: a double-array trie (u32 byte size, then its units) from character sequences to
/// offsets of NUL-terminated replacements, which follow it. SentencePiece walks the trie without bounds checks.
/// Source of the layout: darts-clone's double array. Errors: Malformed.
void check_charsmap(std::string_view charsmap);

}  // namespace trainer::data
