// The wizard's input and output: a terminal, a pipe or a test.
#pragma once

#include <string>
#include <vector>

namespace trainer::config {

struct Question {
  enum class Kind { kText, kBoolean, kChoice };

  std::string text;
  std::string current;               // the meaning of an empty answer; "yes" or "no" for a boolean
  std::vector<std::string> choices;  // of a choice
  Kind kind = Kind::kText;
  std::string help;  // shown for `?`
};

struct Answer {
  enum class Kind {
    kGiven,  // `text` is the answer
    kKept,   // keeps the current value
    kBack,   // go back to the previous question
    kHelp,   // show the question's help, and ask it again
    kEnd     // end of the input: keeps all remaining values
  };

  Kind kind = Kind::kKept;
  std::string text;
};

class Prompter {
 public:
  virtual ~Prompter() = default;
  virtual Answer ask(const Question& question) = 0;
  virtual void say(const std::string& line) = 0;
};

/// Keeps all values.
class SilentPrompter : public Prompter {
 public:
  Answer ask(const Question&) override { return {Answer::Kind::kEnd, ""}; }
  void say(const std::string&) override {}
};

}  // namespace trainer::config
