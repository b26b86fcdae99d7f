// How a chat template ends assistant turns.
#pragma once

#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// Determined once by rendering a probe, because templates don't declare it.
struct TurnEnds {
  std::string inner;                  // the token that ends a reply before further turns; "" when there is none
  std::string last;                   // the token that ends the last turn of a dialogue; "" when there is none
  std::vector<std::string> specials;  // special tokens that the template prints
  size_t header = 0;                  // bytes between the user's text and the reply
};

/// All empty for a template that rejects the probe, or prints no special tokens of this tokenizer.
TurnEnds find_turn_ends(const ChatTemplate& chat, const Tokenizer& tokenizer);

/// The length of the common prefix of two texts, in bytes.
size_t common_length(std::string_view left, std::string_view right);

}  // namespace trainer::data
