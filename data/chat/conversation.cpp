#include "data/chat/conversation.h"

#include <algorithm>

#include "data/chat/tool_calls.h"
#include "data/json/parse_json.h"
#include "data/readers/record_template.h"
#include "data/readers/text_input.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/config/names.h"

namespace trainer::data {
namespace {

using Json = nlohmann::ordered_json;

const std::string& column(const Record& record, const std::string& name, const char* dialogue) {
  if (const std::string* text = record.find(name)) return *text;
  std::vector<std::string> names;
  for (const auto& field : record.fields) names.push_back(field.first);
  throw InputError("{}: data.dialogue: {} needs the column `{}`; the record has {}: {}.", record.where(), dialogue,
                   name, names.size() == 1 ? "only" : "the columns", fmt::join(names, ", "));
}

Json turn_of(std::string role, Json content) {
  return {{"role", std::move(role)}, {"content", std::move(content)}};
}

/// The JSON list in `text`, the column `name`. The first parse is for its messages, which say where a mistake is.
Json list_of(const std::string& text, const Record& record, const std::string& name, const char* what) {
  if (!trimmed(text).starts_with('[')) throw InputError("{}: `{}` is not a list of {}.", record.where(), name, what);
  parse_json(text, record.file, record.line);
  return bounded_json<Json>(text);
}

Json list_in(const Record& record, const std::string& name, const char* dialogue) {
  return list_of(column(record, name, dialogue), record, name, "turns");
}

/// Null for a play, which has no columns.
Json tools_of(const Record& record) {
  const std::string* text = record.find("tools");
  if (text == nullptr || trimmed(*text).empty()) return nullptr;
  Json tools = list_of(*text, record, "tools", "tools");
  for (size_t i = 0; i < tools.size(); ++i)
    if (!tools[i].is_object()) throw InputError("{}: item {} of `tools` is not an object.", record.where(), i + 1);
  return tools;
}

/// The object in the column chat_template_kwargs, as in transformers and TRL.
Json variables_of(const Record& record) {
  constexpr const char* kColumn = "chat_template_kwargs";
  const std::string* const text = record.find(kColumn);
  if (text == nullptr || trimmed(*text).empty()) return Json::object();
  if (!trimmed(*text).starts_with('{')) throw InputError("{}: `{}` is not an object.", record.where(), kColumn);
  parse_json(*text, record.file, record.line);
  return bounded_json<Json>(*text);
}

const std::string& text_at(const Json& turn, const char* key, size_t number, const Record& record) {
  const auto found = turn.is_object() ? turn.find(key) : turn.end();
  if (!turn.is_object() || found == turn.end())
    throw InputError("{}: turn {} has no `{}`.", record.where(), number, key);
  if (!found->is_string()) throw InputError("{}: `{}` of turn {} is not a string.", record.where(), key, number);
  return found->get_ref<const std::string&>();
}

/// Content that is a list may have text parts only: {"type": "text", "text": …}.
void check_parts(const Json& parts, size_t number, const Record& record) {
  for (const Json& part : parts) {
    if (text_at(part, "type", number, record) != "text")
      throw InputError("{}: turn {} has a part of type {}; only parts of type \"text\" are supported.", record.where(),
                       number, part["type"].dump());
    text_at(part, "text", number, record);
  }
}

/// Turns with `role` and `content`, as they are.
Json messages(Json turns, const Record& record) {
  for (size_t i = 0; i < turns.size(); ++i) {
    const Json& turn = turns[i];
    text_at(turn, "role", i + 1, record);
    const auto content = turn.find("content");
    if (content == turn.end() || content->is_null()) continue;  // the template handles it
    if (content->is_array())
      check_parts(*content, i + 1, record);
    else
      text_at(turn, "content", i + 1, record);
  }
  return turns;
}

std::string role_of(const std::string& from) {
  if (from == "human") return "user";
  if (from == "gpt" || from == "chatgpt" || from == "bing" || from == "bard") return "assistant";
  if (from == "observation") return "tool";
  return from;
}

Json sharegpt(const Json& given, const Record& record) {
  Json turns = Json::array();
  size_t number = 0;
  for (const Json& turn : given) {
    const std::string& from = text_at(turn, "from", ++number, record);
    const bool nothing = turn.contains("value") && turn["value"].is_null();
    if (from == "function_call")
      turns.push_back(call_of(text_at(turn, "value", number, record), number, record));
    else
      turns.push_back(turn_of(role_of(from), nothing ? Json() : Json(text_at(turn, "value", number, record))));
  }
  return turns;
}

std::string alpaca_question(const Record& record) {
  std::string question = column(record, "instruction", "alpaca");
  const std::string* input = record.find("input");
  if (input != nullptr && !trimmed(*input).empty()) question += "\n\n" + *input;
  return question;
}

Json alpaca(const Record& record) {
  return Json::array(
      {turn_of("user", alpaca_question(record)), turn_of("assistant", column(record, "output", "alpaca"))});
}

Json prompt(const Record& record, const config::DataConfig& config) {
  return Json::array({turn_of("user", Template(config.source, "data.source").render(record)),
                      turn_of("assistant", Template(config.target, "data.target").render(record))});
}

/// The character's speeches are the assistant's turns; the speeches of others between them form one user turn.
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

Json listed_turns(const Record& record, const std::string& name, config::Dialogue format) {
  const bool shared = format == config::Dialogue::kShareGpt;
  Json turns = list_in(record, name, shared ? "sharegpt" : "messages");
  return shared ? sharegpt(turns, record) : messages(std::move(turns), record);
}

/// Whether the turns are in the columns `prompt` and `completion`, as TRL reads them.
bool has_completion(const Record& record, const config::DataConfig& config) {
  const bool lists = config.dialogue == config::Dialogue::kMessages || config.dialogue == config::Dialogue::kShareGpt;
  return lists && config.messages.empty() && record.find(usual_turns(config.dialogue)) == nullptr &&
         record.find(config::kPromptColumn) != nullptr && record.find(config::kCompletionColumn) != nullptr;
}

Json read(const Record& record, const config::DataConfig& config) {
  switch (config.dialogue) {
    case config::Dialogue::kMessages:
    case config::Dialogue::kShareGpt:
      return listed_turns(record, config.messages.empty() ? usual_turns(config.dialogue) : config.messages,
                          config.dialogue);
    case config::Dialogue::kAlpaca:
      return alpaca(record);
    case config::Dialogue::kPrompt:
      return prompt(record, config);
    case config::Dialogue::kPlay:
      return play(record, config);
    case config::Dialogue::kNone:
      break;
  }
  throw InternalError("a dialogue is being read, but data.dialogue is none");
}

}  // namespace

bool is_reply(const Json& turn) {
  return turn["role"] == "assistant";
}

const char* usual_turns(config::Dialogue format) {
  return format == config::Dialogue::kShareGpt ? "conversations" : "messages";
}

Json turns_in(const Record& record, const std::string& name, config::Dialogue format) {
  const std::string_view text = trimmed(column(record, name, config::name_of(format).c_str()));
  if (!text.starts_with('{')) return listed_turns(record, name, format);
  parse_json(std::string(text), record.file, record.line);
  const Json object = bounded_json<Json>(text);
  const auto turns = object.find("messages");
  Record listed = record;
  for (auto& field : listed.fields)
    if (field.first == name) field.second = turns == object.end() ? fmt::format("[{}]", text) : turns->dump();
  return listed_turns(listed, name, format);
}

Json question_of(const Record& record, const config::DataConfig& config) {
  const bool alpaca = config.dialogue == config::Dialogue::kAlpaca;
  return Json::array(
      {turn_of("user", alpaca ? alpaca_question(record) : Template(config.source, "data.source").render(record))});
}

Json reply_of(std::string text) {
  return Json::array({turn_of("assistant", std::move(text))});
}

Conversation with_system_and_tools(Json turns, const Record& record, const config::DataConfig& config) {
  Conversation out{std::move(turns), tools_of(record), variables_of(record)};
  if (config.dialogue == config::Dialogue::kShareGpt) complete_tools(out.tools);
  const std::string* const own = record.find("system");
  const std::string& system = own != nullptr && !trimmed(*own).empty() ? *own : config.system;
  const bool has_one =
      std::any_of(out.turns.begin(), out.turns.end(), [](const Json& turn) { return turn["role"] == "system"; });
  if (!has_one && !system.empty()) out.turns.insert(out.turns.begin(), turn_of("system", system));
  return out;
}

Conversation conversation_of(const Record& record, const config::DataConfig& config) {
  const bool completed = has_completion(record, config);
  Json turns = completed ? turns_in(record, config::kPromptColumn, config.dialogue) : read(record, config);
  const size_t prompt = turns.size();
  if (completed)
    for (const Json& turn : turns_in(record, config::kCompletionColumn, config.dialogue)) turns.push_back(turn);
  if (turns.empty()) throw InputError("{}: the dialogue has no turns.", record.where());
  if (config.learn != config::Learn::kAll && std::none_of(turns.begin(), turns.end(), is_reply))
    throw InputError("{}: the dialogue has no assistant turn, so there is nothing to learn.", record.where());
  const size_t given = turns.size();
  Conversation out = with_system_and_tools(std::move(turns), record, config);
  if (completed) out.prompt_turns = prompt + (out.turns.size() - given);
  return out;
}

void join_parts(Conversation& conversation) {
  for (Json& turn : conversation.turns) {
    const auto content = turn.find("content");
    if (content == turn.end() || !content->is_array()) continue;
    std::string text;
    for (const Json& part : *content) text += part["text"].get_ref<const std::string&>();
    *content = text;
  }
}

}  // namespace trainer::data
