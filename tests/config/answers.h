// A simulated user of the wizard with prepared answers.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/config/wizard/wizard.h"

namespace trainer::config {

/// Answers by the beginning of the question; otherwise keeps the default, and ends the input if that is refused.
/// Answers are as typed by a user: `<` goes back, `?` asks for help, `^D` ends the input.
class Answers : public Prompter {
 public:
  using Given = std::map<std::string, std::deque<std::string>>;
  explicit Answers(Given given) : given_(std::move(given)) {}

  Answer ask(const Question& question) override {
    const bool again = !asked.empty() && asked.back().text == question.text;
    asked.push_back(question);
    for (auto& [begin, answers] : given_) {
      if (!question.text.starts_with(begin) || answers.empty()) continue;
      const std::string answer = answers.front();
      answers.pop_front();
      if (answer == "<") return {Answer::Kind::kBack, ""};
      if (answer == "?") return {Answer::Kind::kHelp, ""};
      if (answer == "^D") return {Answer::Kind::kEnd, ""};
      if (answer.empty()) return {Answer::Kind::kKept, ""};
      return {Answer::Kind::kGiven, answer};
    }
    return {again ? Answer::Kind::kEnd : Answer::Kind::kKept, ""};
  }

  void say(const std::string& line) override { said += line + "\n"; }

  /// The beginnings of questions whose answers were not all used.
  std::string unused() const {
    std::string all;
    for (const auto& [begin, answers] : given_) {
      if (!answers.empty()) all += begin + "\n";
    }
    return all;
  }

  /// How often a question with this beginning was asked.
  int count(const std::string& begin) const {
    int times = 0;
    for (const Question& question : asked) times += question.text.starts_with(begin) ? 1 : 0;
    return times;
  }

  /// The last question with this beginning; an empty one if it was never asked.
  Question last(const std::string& begin) const {
    Question found;
    for (const Question& question : asked) {
      if (question.text.starts_with(begin)) found = question;
    }
    return found;
  }

  std::vector<Question> asked;
  std::string said;

 private:
  Given given_;
};

/// A machine without GPUs, and a user in the file's folder.
inline Surroundings plain_surroundings() {
  Surroundings around;
  around.machine = {4, int64_t{16} << 30, {}};
  around.here = around.folder = "/work";
  return around;
}

}  // namespace trainer::config
