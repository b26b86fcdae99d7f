#include "data/tokenizers/post_processors/trim_offsets.h"

#include <algorithm>

#include "data/tokenizers/text/characters.h"

namespace trainer::data {
namespace {

/// `count` characters after `at`, at most `limit`.
uint32_t forward(std::string_view text, uint32_t at, uint32_t count, uint32_t limit) {
  for (; count > 0 && at < limit; --count) at += char_length(text, at);
  return std::min(at, limit);
}

/// `count` characters before `at`, at least `limit`; `at` itself when the text has fewer.
uint32_t backward(std::string_view text, uint32_t at, uint32_t count, uint32_t limit) {
  uint32_t place = at;
  for (; count > 0 && place > 0; --count) place -= char_before(text, place).length;
  return count > 0 ? at : std::max(place, limit);
}

}  // namespace

void trim_offsets(std::vector<PlacedToken>& tokens, std::string_view original, bool add_prefix_space) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    PlacedToken& token = tokens[i];
    bool prefix = add_prefix_space && token.leading_spaces == 1 && (i == 0 || token.begin == 0);
    if (token.leading_spaces > 0 && !prefix) {
      token.begin = forward(original, token.begin, token.leading_spaces, token.end);
    }
    if (token.trailing_spaces > 0) {
      token.end = backward(original, token.end, token.trailing_spaces, token.begin);
    }
  }
}

}  // namespace trainer::data
