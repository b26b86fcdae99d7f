// Dialogues as they are stored in records.
#pragma once

#include <nlohmann/json.hpp>

#include "data/readers/record.h"
#include "engine/config/sections.h"

namespace trainer::data {

struct Conversation {
  nlohmann::ordered_json turns;  // objects with `role`, `content` (a string, a list of parts, or null) and other keys
  nlohmann::ordered_json tools;  // a list of objects; null when the record has none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // of the template: column chat_template_kwargs
  size_t prompt_turns = 0;  // turns before the reply, if a record has them and the reply in columns of their own
};

/// The dialogue of a record, including its columns `system` and `tools`: with_system_and_tools().
/// Errors: InputError with file and line for a record without such a dialogue.
Conversation conversation_of(const Record& record, const config::DataConfig& config);

/// The column in which records of the format messages or sharegpt usually have their turns.
const char* usual_turns(config::Dialogue format);

/// The turns in the column `name`: a list of turns of the format messages or sharegpt, one such turn, or an object with
/// a list `messages`, as OpenAI's files have it. Errors: InputError with file and line.
nlohmann::ordered_json turns_in(const Record& record, const std::string& name, config::Dialogue format);

/// The question of a record of the format alpaca or prompt, as a turn of the user.
nlohmann::ordered_json question_of(const Record& record, const config::DataConfig& config);

/// The turns of a reply: one of the assistant.
nlohmann::ordered_json reply_of(std::string text);

/// These turns with the record's columns `tools` and `chat_template_kwargs` and, unless they have a system message, the
/// one in its column `system`, or else `config.system`.
Conversation with_system_and_tools(nlohmann::ordered_json turns, const Record& record,
                                   const config::DataConfig& config);

/// Joins each content that is a list of text parts into one string.
void join_parts(Conversation& conversation);

/// Whether this is an assistant turn: the replies that are learned.
bool is_reply(const nlohmann::ordered_json& turn);

}  // namespace trainer::data
