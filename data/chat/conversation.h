// Dialogues as records hold them.
#pragma once

#include <nlohmann/json.hpp>

#include "data/readers/record.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// The turns of a record, in order: objects with `role`, `content` and whatever else the record's have; a system
/// message of `config.system` in front when there is none.
/// Errors: InputError with file and line for a record that holds no such dialogue, or one with an empty turn.
nlohmann::ordered_json conversation_of(const Record& record, const config::DataConfig& config);

/// Whether this is a turn of the assistant, of which replies are learnt.
bool is_reply(const nlohmann::ordered_json& turn);

}  // namespace trainer::data
