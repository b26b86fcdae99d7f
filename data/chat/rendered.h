// A dialogue as text, and which of it is learnt.
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
  std::string text;               // with all special tokens of the template in it
  std::vector<TextRange> learnt;  // ascending, disjoint; what ends a turn is learnt with it
  size_t last_reply = 0;          // where the last learnt turn begins: the text before it is a prompt for it
};

}  // namespace trainer::data
