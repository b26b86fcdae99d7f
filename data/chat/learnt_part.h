// Which bytes of a dialogue's text are learnt.
#pragma once

#include "data/chat/chat_template.h"
#include "data/chat/rendered.h"
#include "data/chat/turn_ends.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// A template, and how it ends turns.
struct DialogueTemplate {
  ChatTemplate chat;
  TurnEnds ends;
};

/// Renders the dialogue and finds what `learn` asks for: by the template's `generation` blocks, or, where it has none,
/// as what each turn of the assistant adds to the text before it, up to the token that ends the turn. With kLastTurn
/// the dialogue ends with its last reply.
/// Errors: InputError for a template that changes earlier turns when later ones come.
Rendered render_dialogue(const DialogueTemplate& with, Conversation conversation, config::Learn learn,
                         const Record& record);

}  // namespace trainer::data
