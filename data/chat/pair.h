// Pairs of replies to one prompt, of which the chosen one is better, as they are stored in records.
#pragma once

#include <string>

#include "data/chat/conversation.h"
#include "data/readers/record.h"
#include "engine/config/sections/data.h"

namespace trainer::data {

// Note [The prompt of a pair]
// As in TRL, a record has its prompt in a column of its own, or both replies begin with it. In a dialogue, each of the
// columns `config.target` and `config.rejected` is a list of turns or, as in LLaMA-Factory and axolotl, the last turn
// of the dialogue in the column `messages` or `conversations`. A prompt that is a text beside lists of turns repeats
// the first of these, as in UltraFeedback, or it is what the lists reply to.

/// Two dialogues whose first `prompt_turns` turns are the same.
struct Pair {
  Conversation chosen, rejected;
  size_t prompt_turns = 0;
};

/// The dialogues of a record in the format `config.dialogue`. Errors: InputError with file and line for a record that
/// isn't a pair of replies of the assistant.
Pair pair_of(const Record& record, const config::DataConfig& config);

/// A pair without dialogue.
struct PairOfTexts {
  std::string prompt, chosen, rejected;
};

/// The texts of a record. Errors: InputError with file and line.
PairOfTexts texts_of_pair(const Record& record, const config::DataConfig& config);

}  // namespace trainer::data
