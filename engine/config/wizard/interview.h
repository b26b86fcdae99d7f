// Asks questions one after the other, and goes back. Questions are asked by plain code; going back runs that code again
// from the start with all answers given so far except the last.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/wizard/prompter.h"

namespace trainer::config {

class Interview {
 public:
  explicit Interview(Prompter& prompter) : prompter_(prompter) {}

  /// Runs `questions` until all of them are answered. `questions` must start from the same state every time it is
  /// called.
  void conduct(const std::function<void()>& questions);

  /// Takes an answer and returns "", or returns why it is refused.
  using Take = std::function<std::string(const std::string& answer)>;
  /// Why the current value can't be kept, or "".
  using Keep = std::function<std::string()>;
  /// Asks until `take` accepts. Returns false if the user keeps the current value; then `take` is not called. At the
  /// end of the input everything is kept.
  bool ask(Question question, const Take& take, const Keep& keep = {});

  /// True if this answer to the question was refused before: a repeated answer is intended.
  bool was_refused(const std::string& question, const std::string& answer) const;

  void say(const std::string& line);

 private:
  struct Replied {
    std::string question;
    std::optional<std::string> answer;  // none: kept
  };
  struct WentBack {};

  bool is_replaying() const { return next_ < replies_.size(); }
  /// The answer given before the user went back, if it is still valid.
  std::optional<std::string> earlier_answer(const Question& question) const;
  void go_back();
  bool remember(const Question& question, std::optional<std::string> answer);

  Prompter& prompter_;
  std::vector<Replied> replies_;
  std::size_t next_ = 0;                                   // index into replies_ during a replay
  std::map<std::string, std::string> earlier_;             // answers that the user went back over, by question
  std::set<std::pair<std::string, std::string>> refused_;  // questions and answers
  bool ended_ = false;
};

}  // namespace trainer::config
