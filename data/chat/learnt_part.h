// Which bytes of a dialogue's text are learnt.
#pragma once

#include "data/chat/chat_template.h"
#include "data/chat/rendered.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// Renders all `turns` and finds what `learn` asks for: by the template's `generation` blocks, or, where it has none,
/// as what each turn of the assistant adds to the text before it, up to its end-of-sequence token.
/// Errors: InputError for a template that changes earlier turns when later ones come.
Rendered render_dialogue(const ChatTemplate& chat, const nlohmann::ordered_json& turns, config::Learn learn,
                         const Record& record);

}  // namespace trainer::data
