#include "engine/config/wizard/interview.h"

#include <algorithm>

#include "engine/base/indented.h"

namespace trainer::config {

void Interview::conduct(const std::function<void()>& questions) {
  for (bool done = false; !done;) {
    next_ = 0;
    try {
      questions();
      done = true;
    } catch (const WentBack&) {
    }
  }
}

bool Interview::ask(Question question, const Take& take, const Keep& keep) {
  if (is_replaying()) {
    const Replied& reply = replies_[next_++];
    if (reply.answer) take(*reply.answer);
    return reply.answer.has_value();
  }
  const auto earlier = earlier_answer(question);
  if (earlier) question.current = *earlier;
  for (;;) {
    Answer answer = ended_ ? Answer{} : prompter_.ask(question);
    if (answer.kind == Answer::Kind::kBack) {
      go_back();
      continue;
    }
    if (answer.kind == Answer::Kind::kHelp) {
      prompter_.say(indented(question.help));
      continue;
    }
    ended_ = ended_ || answer.kind == Answer::Kind::kEnd;
    const bool kept = answer.kind != Answer::Kind::kGiven && !earlier;
    if (answer.kind != Answer::Kind::kGiven && earlier) answer.text = *earlier;
    const std::string why = !kept ? take(answer.text) : keep && !ended_ ? keep() : "";
    if (why.empty() || ended_)
      return remember(question, kept || !why.empty() ? std::nullopt : std::optional(answer.text));
    if (!kept) refused_.insert({question.text, answer.text});
    prompter_.say(indented(why));
  }
}

void Interview::say(const std::string& line) {
  if (!is_replaying() && !ended_) prompter_.say(line);
}

bool Interview::was_refused(const std::string& question, const std::string& answer) const {
  return refused_.contains({question, answer});
}

std::optional<std::string> Interview::earlier_answer(const Question& question) const {
  const auto found = earlier_.find(question.text);
  if (found == earlier_.end()) return std::nullopt;
  const auto& choices = question.choices;
  const bool fits = choices.empty() || std::find(choices.begin(), choices.end(), found->second) != choices.end();
  return fits ? std::optional(found->second) : std::nullopt;
}

void Interview::go_back() {
  if (replies_.empty()) {
    prompter_.say("  This is the first question.");
    return;
  }
  if (replies_.back().answer) earlier_[replies_.back().question] = *replies_.back().answer;
  replies_.pop_back();
  throw WentBack{};
}

bool Interview::remember(const Question& question, std::optional<std::string> answer) {
  const bool given = answer.has_value();
  replies_.push_back({question.text, std::move(answer)});
  next_ = replies_.size();
  return given;
}

}  // namespace trainer::config
