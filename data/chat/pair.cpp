#include "data/chat/pair.h"

#include <algorithm>
#include <string_view>

#include "data/readers/record_template.h"
#include "data/readers/text_input.h"
#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

using Json = nlohmann::ordered_json;

/// The turns with which both lists begin.
size_t common_turns(const Json& a, const Json& b) {
  size_t count = 0;
  while (count < std::min(a.size(), b.size()) && a[count] == b[count]) ++count;
  return count;
}

bool has_list(const Record& record, const std::string& name) {
  const std::string* const text = record.find(name);
  return text != nullptr && trimmed(*text).starts_with('[');
}

/// Whether the lists are replies alone, without the dialogue before them.
bool are_replies(const Json& chosen, const Json& rejected) {
  const auto begins = [](const Json& turns) { return !turns.empty() && is_reply(turns[0]); };
  return begins(chosen) && begins(rejected);
}

/// The dialogue before the replies, if a column of its own has it.
Json prompt_in(const Record& record, const config::DataConfig& config, bool only_replies) {
  const std::string usual = usual_turns(config.dialogue);
  if (!config.messages.empty()) return turns_in(record, config.messages, config.dialogue);
  if (has_list(record, config::kPromptColumn)) return turns_in(record, config::kPromptColumn, config.dialogue);
  if (only_replies && record.find(usual) != nullptr) return turns_in(record, usual, config.dialogue);
  if (only_replies && record.find(config.source) != nullptr) return question_of(record, config);
  return Json::array();
}

bool has_content(const Json& turn) {
  const auto content = turn.find("content");
  const bool text = content != turn.end() && content->is_string();
  return (text ? !trimmed(content->get_ref<const std::string&>()).empty()
               : content != turn.end() && !content->empty()) ||
         turn.contains("tool_calls");
}

void check_reply(const Json& turns, size_t first, const std::string& column, const Record& record) {
  if (first == turns.size())
    throw InputError("{}: `{}` has no reply: all of its turns are in the other reply too.", record.where(), column);
  if (!is_reply(turns[first]))
    throw InputError("{}: in `{}`, the turn after the prompt is of the role '{}'; a reply is the assistant's.",
                     record.where(), column, turns[first]["role"].get_ref<const std::string&>());
  if (!has_content(turns[first])) throw InputError("{}: the reply in `{}` is empty.", record.where(), column);
}

Json joined(Json turns, const Json& more) {
  turns.insert(turns.end(), more.begin(), more.end());
  return turns;
}

/// The bytes with which both texts begin, whole characters. A space before the first difference belongs to the replies,
/// as in TRL: tokenizers join it to the next word.
size_t common_prefix(std::string_view a, std::string_view b) {
  size_t length =
      std::mismatch(a.begin(), a.begin() + static_cast<int64_t>(std::min(a.size(), b.size())), b.begin()).first -
      a.begin();
  length = character_begin(a, length);
  return length > 0 && a[length - 1] == ' ' ? length - 1 : length;
}

std::string reply(const std::string& option, const std::string& value, const Record& record) {
  const std::string* const found = record.find(value);
  if (found != nullptr && record.is_json(value) && (found->starts_with('[') || found->starts_with('{')))
    throw InputError(
        "{}: `{}` holds turns: set data.dialogue to messages (role and content) or sharegpt (from and value).",
        record.where(), value);
  std::string text = Template(value, option).render(record);
  if (trimmed(text).empty()) throw InputError("{}: the text for `{}` is empty.", record.where(), option);
  return text;
}

}  // namespace

Pair pair_of(const Record& record, const config::DataConfig& config) {
  Json prompt, chosen, rejected;
  if (config.dialogue == config::Dialogue::kAlpaca || config.dialogue == config::Dialogue::kPrompt) {
    prompt = question_of(record, config);
    chosen = reply_of(reply("data.target", config.target, record));
    rejected = reply_of(reply("data.rejected", config.rejected, record));
  } else {
    chosen = turns_in(record, config.target, config.dialogue);
    rejected = turns_in(record, config.rejected, config.dialogue);
    prompt = prompt_in(record, config, are_replies(chosen, rejected));
  }
  if (prompt.empty()) {
    const size_t common = chosen == rejected && !chosen.empty() ? chosen.size() - 1 : common_turns(chosen, rejected);
    for (size_t i = 0; i < common; ++i) prompt.push_back(chosen[i]);
  } else if (common_turns(chosen, prompt) < prompt.size() || common_turns(rejected, prompt) < prompt.size()) {
    chosen = joined(prompt, chosen);
    rejected = joined(prompt, rejected);
  }
  if (prompt.empty())
    throw InputError(
        "{}: the pair has no prompt: `{}` and `{}` begin with different turns, and there is no column "
        "with the turns before them (data.messages).",
        record.where(), config.target, config.rejected);
  check_reply(chosen, prompt.size(), config.target, record);
  check_reply(rejected, prompt.size(), config.rejected, record);
  const size_t given = chosen.size();
  Pair pair{with_system_and_tools(std::move(chosen), record, config),
            with_system_and_tools(std::move(rejected), record, config), 0};
  pair.prompt_turns = prompt.size() + (pair.chosen.turns.size() - given);
  return pair;
}

PairOfTexts texts_of_pair(const Record& record, const config::DataConfig& config) {
  PairOfTexts pair{"", reply("data.target", config.target, record), reply("data.rejected", config.rejected, record)};
  const bool implicit = config.source == config::kPromptColumn && record.find(config.source) == nullptr;
  if (!implicit) {
    pair.prompt = Template(config.source, "data.source").render(record);
    return pair;
  }
  const size_t length = common_prefix(pair.chosen, pair.rejected);
  pair.prompt = pair.chosen.substr(0, length);
  pair.chosen.erase(0, length);
  pair.rejected.erase(0, length);
  const std::pair<const std::string&, const std::string&> replies[] = {{pair.chosen, config.target},
                                                                       {pair.rejected, config.rejected}};
  for (const auto& [text, column] : replies)
    if (text.empty() && pair.chosen != pair.rejected)
      throw InputError("{}: the reply in `{}` is empty: the other one begins with it.", record.where(), column);
  return pair;
}

}  // namespace trainer::data
