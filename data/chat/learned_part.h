// Finds the bytes of a dialogue's text that are learned.
#pragma once

#include "data/chat/chat_template.h"
#include "data/chat/rendered.h"
#include "data/chat/turn_ends.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// A template and the tokens that end its turns.
struct DialogueTemplate {
  ChatTemplate chat;
  TurnEnds ends;
};

/// Renders the dialogue and finds the ranges that `learn` selects: the template's `generation` blocks or, without them,
/// the text that each assistant turn adds to the text before it, up to the token that ends the turn. With kLastTurn
/// the dialogue ends with its last reply.
/// Errors: InputError for a template that renders earlier turns differently when later turns follow.
Rendered render_dialogue(const DialogueTemplate& with, Conversation conversation, config::Learn learn,
                         const Record& record);

/// Renders the dialogue whose turns from index `first` on reply to those before: all of the text after the prompt for
/// them is learned, as in TRL. Errors: as above.
Rendered render_reply(const DialogueTemplate& with, const Conversation& conversation, size_t first,
                      const Record& record);

}  // namespace trainer::data
