// How a chat template ends the turns of the assistant.
#pragma once

#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// Found out once with a probe, as templates don't say it.
struct TurnEnds {
  std::string inner;                  // the token that ends a reply which other turns follow; "" when there is none
  std::string last;                   // the one that ends the last turn of a dialogue; likewise
  std::vector<std::string> specials;  // special tokens that the template prints
  size_t header = 0;                  // bytes between what a user says and the reply
};

/// All empty for a template that refuses the probe, or that prints no special tokens of this tokenizer.
TurnEnds find_turn_ends(const ChatTemplate& chat, const Tokenizer& tokenizer);

/// How many bytes the two texts have in common from their beginnings on.
size_t common_length(std::string_view left, std::string_view right);

}  // namespace trainer::data
