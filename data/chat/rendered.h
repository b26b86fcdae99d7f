// A rendered dialogue and its learned ranges.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trainer::data {

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0, end = 0;
};

struct Rendered {
  std::string text;                // including the template's special tokens
  std::vector<TextRange> learned;  // ascending, disjoint; the token that ends a turn is learned with it
  size_t last_reply = 0;           // where the last learned turn begins: the text before it is its prompt
};

/// The texts of a pair, each with its prompt.
struct RenderedPair {
  Rendered chosen, rejected;
  bool same = false;  // the replies are equal, so that neither is better
};

}  // namespace trainer::data
