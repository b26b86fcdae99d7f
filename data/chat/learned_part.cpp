#include "data/chat/learned_part.h"

#include <algorithm>
#include <optional>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using Json = nlohmann::ordered_json;

/// Finds the assistant's replies in the text of a dialogue.
class Replies {
 public:
  Replies(const DialogueTemplate& with, const Conversation& conversation, const std::string& text, const Record& record)
      : chat_(with.chat), ends_(with.ends), conversation_(conversation), text_(text), record_(record) {}

  TextRange find(size_t turn) const {
    const std::optional<size_t> begin = begin_of(turn), end = begin ? end_of(turn, *begin) : begin;
    if (end) return {*begin, *end};
    throw_not_found(turn);
  }

  /// From the beginning of `turn` to the end of the text.
  TextRange find_rest(size_t turn) const {
    if (const std::optional<size_t> begin = begin_of(turn)) return {*begin, text_.size()};
    throw_not_found(turn);
  }

 private:
  [[noreturn]] void throw_not_found(size_t turn) const {
    throw InputError(
        "{}: {} renders turn {} differently once other turns follow, so the replies can't be located.\n"
        "`data.learn: each_turn` makes a sample of each reply and the turns before it, rendered as for a model that "
        "has to reply; `last_turn` makes one of the last reply only, and `all` does not locate replies. Or put "
        "{{% generation %}} … {{% endgeneration %}} around the assistant's text in the template.",
        record_.where(), chat_.name(), turn + 1);
  }

  std::string rendered(const Conversation& conversation, size_t count, bool prompt) const {
    return chat_.render(conversation, count, prompt, record_).text;
  }

  /// Where the text diverges from the prompt for this turn.
  std::optional<size_t> begin_of(size_t turn) const {
    const std::string prompt = rendered(conversation_, turn, true);
    if (text_.starts_with(prompt)) return prompt.size();
    // The prompt may contain more than the start of the turn, such as <think>. Rendering another content shows where
    // the turn's content begins.
    constexpr char kOther = '\x01';
    Conversation other = conversation_;
    other.turns[turn]["content"] = std::string(1, kOther);
    const std::string with_other = rendered(other, turn + 1, false);
    const size_t content = common_length(with_other, text_);
    const bool found = content < with_other.size() && with_other[content] == kOther;
    const size_t begin = without_part_of_special(std::min(content, common_length(prompt, text_)));
    if (found && content - begin <= ends_.header) return begin;
    // The prompt renders earlier turns differently, or the content also affects the text before it.
    if (turn + 1 < conversation_.turns.size()) return {};
    if (found) return content;
    const std::string before = rendered(conversation_, turn, false);
    return text_.starts_with(before) && begin >= before.size() ? std::optional(begin) : std::nullopt;
  }

  /// `at`, or the beginning of the special token that contains it.
  size_t without_part_of_special(size_t at) const {
    for (const std::string& special : ends_.specials)
      for (size_t begin = at - std::min(at, special.size() - 1); begin < at; ++begin)
        if (text_.compare(begin, special.size(), special) == 0) return begin;
    return at;
  }

  std::optional<size_t> end_of(size_t turn, size_t begin) const {
    const bool is_last = turn + 1 == conversation_.turns.size();
    const std::string& closer = is_last ? ends_.last : ends_.inner;
    const std::string prompt = is_last ? text_ : rendered(conversation_, turn + 1, true);
    const size_t found = closer.empty() ? std::string::npos : prompt.rfind(closer);
    if (found != std::string::npos && found >= begin) {
      const size_t end = found + closer.size();
      return end <= common_length(prompt, text_) ? std::optional(end) : std::nullopt;
    }
    const std::string with = is_last ? text_ : rendered(conversation_, turn + 1, false);
    if (with.size() < begin || !text_.starts_with(with)) return {};
    return end_of_sequence(begin, with.size());
  }

  /// White space after the last end-of-sequence token of [begin, end) is not learned.
  size_t end_of_sequence(size_t begin, size_t end) const {
    const std::string& eos = chat_.eos();
    const size_t found = eos.empty() ? std::string::npos : text_.rfind(eos, end);
    if (found == std::string::npos || found < begin || found + eos.size() > end) return end;
    const size_t behind = found + eos.size();
    return text_.find_first_not_of(" \n\t\r", behind) >= end ? behind : end;
  }

  const ChatTemplate& chat_;
  const TurnEnds& ends_;
  const Conversation& conversation_;
  const std::string& text_;
  const Record& record_;
};

/// Removes the turns after the last reply: no learned token attends to them.
void end_with_reply(Json& turns) {
  while (!turns.empty() && !is_reply(turns.back())) turns.erase(turns.size() - 1);
}

/// Which of the `generated` ranges of the dialogue's text begins its last reply. A template may have several blocks in
/// a reply: one of its thoughts, one that ends the dialogue.
size_t first_of_last(const ChatTemplate& chat, const Conversation& conversation,
                     const std::vector<TextRange>& generated, const Record& record) {
  const Json& turns = conversation.turns;
  const auto replies = static_cast<size_t>(std::count_if(turns.begin(), turns.end(), is_reply));
  if (generated.size() == replies) return generated.size() - 1;
  size_t last = turns.size() - 1;
  while (last > 0 && !is_reply(turns[last])) --last;
  const size_t before = chat.render(conversation, last, true, record).generated.size();
  return std::min(before, generated.size() - 1);
}

}  // namespace

Rendered render_dialogue(const DialogueTemplate& with, Conversation conversation, config::Learn learn,
                         const Record& record) {
  const bool last_only = learn == config::Learn::kLastTurn;
  const Json& turns = conversation.turns;
  if (last_only) end_with_reply(conversation.turns);
  jinja::Printed printed = with.chat.render(conversation, turns.size(), false, record);
  Rendered out{std::move(printed.text), {}};
  if (learn == config::Learn::kAll) {
    out.learned = {{0, out.text.size()}};
    return out;
  }
  out.learned = std::move(printed.generated);
  const Replies replies(with, conversation, out.text, record);
  for (size_t i = last_only ? turns.size() - 1 : 0; !with.chat.has_generation() && i < turns.size(); ++i)
    if (is_reply(turns[i])) out.learned.push_back(replies.find(i));
  if (out.learned.empty()) throw InputError("{}: {} printed no assistant turn.", record.where(), with.chat.name());
  const auto last = static_cast<std::ptrdiff_t>(with.chat.has_generation()
                                                    ? first_of_last(with.chat, conversation, out.learned, record)
                                                    : out.learned.size() - 1);
  out.last_reply = out.learned[last].begin;
  if (last_only) out.learned.erase(out.learned.begin(), out.learned.begin() + last);
  return out;
}

Rendered render_reply(const DialogueTemplate& with, const Conversation& conversation, size_t first,
                      const Record& record) {
  Rendered out{with.chat.render(conversation, conversation.turns.size(), false, record).text, {}};
  out.learned = {Replies(with, conversation, out.text, record).find_rest(first)};
  out.last_reply = out.learned.front().begin;
  return out;
}

}  // namespace trainer::data
