// Dialogues as they are stored in records.
#pragma once

#include <nlohmann/json.hpp>

#include "data/readers/record.h"
#include "engine/config/sections.h"

namespace trainer::data {

struct Conversation {
  nlohmann::ordered_json turns;  // objects with `role`, `content` (a string, a list of parts, or null) and other keys
  nlohmann::ordered_json tools;  // a list of objects; null when the record has none
};

/// The dialogue of a record, including its column `tools`. Without a system message, `config.system` is put in front.
/// Errors: InputError with file and line for a record without such a dialogue.
Conversation conversation_of(const Record& record, const config::DataConfig& config);

/// Joins each content that is a list of text parts into one string.
void join_parts(Conversation& conversation);

/// Whether this is an assistant turn: the replies that are learned.
bool is_reply(const nlohmann::ordered_json& turn);

}  // namespace trainer::data
