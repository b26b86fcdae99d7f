#include "data/chat/learnt_part.h"

#include "data/chat/conversation.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// The end of a turn: what stands behind its end-of-sequence token is not learnt if it is white space.
size_t end_of_turn(const std::string& text, size_t begin, size_t end, const std::string& eos) {
  if (eos.empty()) return end;
  const size_t found = text.rfind(eos, end);
  if (found == std::string::npos || found < begin || found + eos.size() > end) return end;
  const size_t behind = found + eos.size();
  return text.find_first_not_of(" \n\t\r", behind) >= end ? behind : end;
}

/// What each turn of the assistant adds.
std::vector<TextRange> replies(const ChatTemplate& chat, const nlohmann::ordered_json& turns, const std::string& text,
                               const Record& record) {
  std::vector<TextRange> out;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (!is_reply(turns[i])) continue;
    const std::string before = chat.render(turns, i, true, record).text;
    const std::string with = i + 1 == turns.size() ? text : chat.render(turns, i + 1, false, record).text;
    if (!with.starts_with(before) || !text.starts_with(with))
      throw InputError(
          "{}: with {} the text up to turn {} is not the beginning of the whole dialogue's text, so what is learnt "
          "can't be told.\n  Put {{% generation %}} … {{% endgeneration %}} around the assistant's text in the "
          "template.",
          record.where(), chat.name(), i + 1);
    out.push_back({before.size(), end_of_turn(text, before.size(), with.size(), chat.eos())});
  }
  return out;
}

}  // namespace

Rendered render_dialogue(const ChatTemplate& chat, const nlohmann::ordered_json& turns, config::Learn learn,
                         const Record& record) {
  jinja::Printed printed = chat.render(turns, turns.size(), false, record);
  Rendered out{std::move(printed.text), std::move(printed.generated)};
  if (!chat.has_generation()) out.learnt = replies(chat, turns, out.text, record);
  if (!out.learnt.empty()) out.last_reply = out.learnt.back().begin;
  if (learn == config::Learn::kAll)
    out.learnt = {{0, out.text.size()}};
  else if (out.learnt.empty())
    throw InputError("{}: {} printed no turn of the assistant.", record.where(), chat.name());
  else if (learn == config::Learn::kLastTurn)
    out.learnt.erase(out.learnt.begin(), out.learnt.end() - 1);
  return out;
}

}  // namespace trainer::data
