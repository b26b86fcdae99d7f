// Asking a user: menus with arrow keys on a terminal, plain lines on a pipe.
#pragma once

#include <istream>
#include <memory>
#include <ostream>

#include "engine/config/wizard.h"

namespace trainer::cli {

/// Questions and answers as lines; a choice may be answered by its number.
class LinePrompter : public config::Prompter {
 public:
  /// `echo`: repeats the answers, where nothing else shows them.
  LinePrompter(std::istream& in, std::ostream& out, bool echo) : in_(in), out_(out), echo_(echo) {}
  std::optional<std::string> ask(const std::string& question, const std::string& current,
                                 const std::vector<std::string>& choices) override;
  void say(const std::string& line) override;

 protected:
  std::istream& in_;
  std::ostream& out_;
  bool echo_;
};

/// The same with a menu for choices, moved through by arrow and number keys.
class MenuPrompter : public LinePrompter {
 public:
  using LinePrompter::LinePrompter;
  std::optional<std::string> ask(const std::string& question, const std::string& current,
                                 const std::vector<std::string>& choices) override;
};

/// A MenuPrompter where standard input and output are a terminal.
std::unique_ptr<config::Prompter> make_prompter();

}  // namespace trainer::cli
