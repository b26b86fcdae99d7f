#include "data/chat/conversation.h"

#include "data/json/json_text.h"
#include "data/readers/text_input.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using Json = nlohmann::ordered_json;

const std::string& column(const Record& record, const std::string& name, const char* dialogue) {
  if (const std::string* text = record.find(name)) return *text;
  std::vector<std::string> names;
  for (const auto& field : record.fields) names.push_back(field.first);
  throw InputError("{}: data.dialogue {} needs the column `{}`; there {}: {}.", record.where(), dialogue, name,
                   names.size() == 1 ? "is only" : "are", fmt::join(names, ", "));
}

Json turn_of(std::string role, std::string content) {
  return {{"role", std::move(role)}, {"content", std::move(content)}};
}

/// The list in `name`. The checked parse comes first: it bounds the nesting.
Json list_in(const Record& record, const std::string& name, const char* dialogue) {
  const std::string& text = column(record, name, dialogue);
  const std::string_view begin = trimmed(text);
  if (!begin.starts_with('[')) throw InputError("{}: `{}` is no list of turns.", record.where(), name);
  parse_json(text, record.file, record.line);
  Json list = Json::parse(text);
  if (!list.is_array()) throw InputError("{}: `{}` is no list of turns.", record.where(), name);
  return list;
}

const std::string& text_at(const Json& turn, const char* key, size_t number, const Record& record) {
  const auto found = turn.is_object() ? turn.find(key) : turn.end();
  if (!turn.is_object() || found == turn.end())
    throw InputError("{}: turn {} has no `{}`.", record.where(), number, key);
  if (!found->is_string()) throw InputError("{}: `{}` of turn {} is no text.", record.where(), key, number);
  return found->get_ref<const std::string&>();
}

/// The text of content that is a list of {"type": "text", "text": …}.
std::string joined_parts(const Json& parts, size_t number, const Record& record) {
  std::string text;
  for (const Json& part : parts) {
    if (text_at(part, "type", number, record) != "text")
      throw InputError("{}: turn {} has a part of type {}; only text can be learnt from.", record.where(), number,
                       part["type"].dump());
    text += text_at(part, "text", number, record);
  }
  return text;
}

Json messages(const Record& record, const config::DataConfig& config) {
  Json turns = list_in(record, config.messages.empty() ? "messages" : config.messages, "messages");
  for (size_t i = 0; i < turns.size(); ++i) {
    Json& turn = turns[i];
    text_at(turn, "role", i + 1, record);
    const auto content = turn.find("content");
    const bool calls = turn.contains("tool_calls");
    if (content != turn.end() && content->is_array()) *content = joined_parts(*content, i + 1, record);
    if (!calls || (content != turn.end() && !content->is_null())) text_at(turn, "content", i + 1, record);
  }
  return turns;
}

std::string role_of(const std::string& from) {
  if (from == "human") return "user";
  if (from == "gpt" || from == "chatgpt" || from == "bing" || from == "bard") return "assistant";
  return from;
}

Json sharegpt(const Record& record, const config::DataConfig& config) {
  Json turns = Json::array();
  size_t number = 0;
  for (const Json& turn : list_in(record, config.messages.empty() ? "conversations" : config.messages, "sharegpt")) {
    ++number;
    turns.push_back(turn_of(role_of(text_at(turn, "from", number, record)), text_at(turn, "value", number, record)));
  }
  return turns;
}

Json alpaca(const Record& record) {
  std::string question = column(record, "instruction", "alpaca");
  const std::string* input = record.find("input");
  if (input != nullptr && !trimmed(*input).empty()) question += "\n\n" + *input;
  return Json::array({turn_of("user", question), turn_of("assistant", column(record, "output", "alpaca"))});
}

Json prompt(const Record& record) {
  return Json::array({turn_of("user", column(record, "prompt", "prompt")),
                      turn_of("assistant", column(record, "completion", "prompt"))});
}

/// The character's speeches are the assistant's; what the others say in between is one turn of the user.
Json play(const Record& record, const config::DataConfig& config) {
  Json turns = Json::array();
  size_t number = 0;
  for (const Json& speech : list_in(record, "scene", "play")) {
    const std::string& speaker = text_at(speech, "speaker", ++number, record);
    const std::string& text = text_at(speech, "text", number, record);
    const bool reply = config.character.empty() || speaker == config.character;
    if (reply && !config.character.empty())
      turns.push_back(turn_of("assistant", text));
    else if (reply)
      turns.push_back(turn_of(number % 2 == 1 ? "user" : "assistant", speaker + ": " + text));
    else if (!turns.empty() && turns.back()["role"] == "user")
      turns.back()["content"] = turns.back()["content"].get<std::string>() + "\n" + speaker + ": " + text;
    else
      turns.push_back(turn_of("user", speaker + ": " + text));
  }
  return turns;
}

Json read(const Record& record, const config::DataConfig& config) {
  switch (config.dialogue) {
    case config::Dialogue::kMessages:
      return messages(record, config);
    case config::Dialogue::kShareGpt:
      return sharegpt(record, config);
    case config::Dialogue::kAlpaca:
      return alpaca(record);
    case config::Dialogue::kPrompt:
      return prompt(record);
    case config::Dialogue::kPlay:
      return play(record, config);
    case config::Dialogue::kNone:
      break;
  }
  throw InternalError("a dialogue is read, but data.dialogue is none");
}

}  // namespace

bool is_reply(const Json& turn) {
  return turn["role"] == "assistant";
}

Json conversation_of(const Record& record, const config::DataConfig& config) {
  Json turns = read(record, config);
  if (turns.empty()) throw InputError("{}: the dialogue has no turns.", record.where());
  bool system = false, reply = false;
  for (size_t i = 0; i < turns.size(); ++i) {
    const auto content = turns[i].find("content");
    if (content != turns[i].end() && content->is_string() && !turns[i].contains("tool_calls") &&
        trimmed(content->get_ref<const std::string&>()).find_first_not_of("\r\n") == std::string_view::npos)
      throw InputError("{}: turn {} ({}) is empty.", record.where(), i + 1, turns[i]["role"].get<std::string>());
    system = system || turns[i]["role"] == "system";
    reply = reply || is_reply(turns[i]);
  }
  if (!reply && config.learn != config::Learn::kAll)
    throw InputError("{}: the dialogue has no turn of the assistant, so there is nothing to learn.", record.where());
  if (!system && !config.system.empty()) turns.insert(turns.begin(), turn_of("system", config.system));
  return turns;
}

}  // namespace trainer::data
