// Prompts: menus with arrow keys on a terminal, plain lines on a pipe.
#pragma once

#include <istream>
#include <memory>
#include <ostream>

#include "engine/config/wizard/prompter.h"

namespace trainer::cli {

/// Questions and answers as lines. A choice can be answered by its number; `<` goes back a question.
class LinePrompter : public config::Prompter {
 public:
  /// `echo`: print the answers, because input from a pipe doesn't appear on the screen.
  LinePrompter(std::istream& in, std::ostream& out, bool echo) : in_(in), out_(out), echo_(echo) {}
  config::Answer ask(const config::Question& question) override;
  void say(const std::string& line) override;

 protected:
  std::istream& in_;
  std::ostream& out_;
  bool echo_;
};

/// The same, with a menu for choices, navigated with arrow, number, Home and End keys, or j and k.
class MenuPrompter : public LinePrompter {
 public:
  using LinePrompter::LinePrompter;
  config::Answer ask(const config::Question& question) override;
};

/// True when a user sits at standard input and output.
bool is_interactive();

/// A MenuPrompter where a user sits at a terminal that can move its cursor.
std::unique_ptr<config::Prompter> make_prompter();

}  // namespace trainer::cli
