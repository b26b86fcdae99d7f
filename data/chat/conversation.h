// Dialogues as records hold them.
#pragma once

#include <nlohmann/json.hpp>

#include "data/readers/record.h"
#include "engine/config/sections.h"

namespace trainer::data {

struct Conversation {
  nlohmann::ordered_json turns;  // objects with `role`, `content` (a text, a list of parts, or null) and what else
  nlohmann::ordered_json tools;  // a list of objects; null: the record has none
};

/// The dialogue of a record, its column `tools` included; a system message of `config.system` in front when there is
/// none. Errors: InputError with file and line for a record that holds no such dialogue.
Conversation conversation_of(const Record& record, const config::DataConfig& config);

/// Makes one text of each content that is a list of texts.
void join_parts(Conversation& conversation);

/// Whether this is a turn of the assistant, of which replies are learnt.
bool is_reply(const nlohmann::ordered_json& turn);

}  // namespace trainer::data
