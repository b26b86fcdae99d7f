// One question after the other, and back. Questions are asked by plain code; going back runs that code again from its
// start with the answers given so far, all but the last.
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

  /// Runs `questions` until they are all answered. It must start from the same state every time it is called.
  void conduct(const std::function<void()>& questions);

  /// Why an answer is not acceptable, or "" after taking it.
  using Take = std::function<std::string(const std::string& answer)>;
  /// Why what is there can't be kept, or "".
  using Keep = std::function<std::string()>;
  /// Asks until `take` accepts. False when the user keeps what is there: `take` is not called then. At the end of the
  /// input everything is kept.
  bool ask(Question question, const Take& take, const Keep& keep = {});

  /// True when this answer to the question was refused before: who repeats it means it.
  bool was_refused(const std::string& question, const std::string& answer) const;

  void say(const std::string& line);

 private:
  struct Replied {
    std::string question;
    std::optional<std::string> answer;  // none: kept
  };
  struct GoneBack {};

  bool is_replaying() const { return next_ < replies_.size(); }
  /// The answer given before the user went back, where it still fits.
  std::optional<std::string> earlier_answer(const Question& question) const;
  void go_back();
  bool remember(const Question& question, std::optional<std::string> answer);

  Prompter& prompter_;
  std::vector<Replied> replies_;
  std::size_t next_ = 0;                                   // of replies_, while they are gone through again
  std::map<std::string, std::string> earlier_;             // answers that the user went back from, by question
  std::set<std::pair<std::string, std::string>> refused_;  // questions and answers
  bool ended_ = false;
};

}  // namespace trainer::config
