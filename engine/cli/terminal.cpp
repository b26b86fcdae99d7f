#include "engine/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include <fmt/format.h>

#include "engine/base/terminal_text.h"
#include "engine/cli/keys.h"
#include "engine/cli/menu.h"
#include "engine/cli/raw_mode.h"

namespace trainer::cli {
namespace {

using config::Answer;
using config::Question;

winsize window() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// A default can contain line breaks, as in the template "{instruction}\n{input}".
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "\\n" : std::string(1, c);
  return line;
}

/// The question as one line, or several for a choice, up to where the answer is typed.
std::string prompt(const Question& question) {
  if (question.kind == Question::Kind::kBoolean)
    return fmt::format("{} [{}]: ", question.text, question.current == "yes" ? "YES/no" : "yes/NO");
  if (question.choices.empty() && question.current.empty())
    return question.text + (question.text.ends_with('?') ? " " : ": ");
  if (question.choices.empty()) return fmt::format("{} [{}]: ", question.text, in_one_line(question.current));
  std::string text = question.text + "\n";
  for (std::size_t i = 0; i < question.choices.size(); ++i)
    text += fmt::format("  {}  {}\n", i + 1, question.choices[i]);
  return fmt::format("{}[{}]: ", text, question.current.substr(0, question.current.find(": ")));
}

/// Where a user sits, lines break between words.
std::string shown(const std::string& text) {
  return is_interactive() ? wrapped(text, window().ws_col) : text;
}

bool goes_back(const std::string& answer) {
  return answer == "<" || answer == "\033[D";  // the left arrow, as line input delivers it
}

}  // namespace

Answer LinePrompter::ask(const Question& question) {
  out_ << shown(prompt(question)) << std::flush;
  std::string line;
  if (!std::getline(in_, line)) {
    out_ << "\n";
    return {Answer::Kind::kEnd, ""};
  }
  const std::string answer = trimmed(line);
  if (echo_) out_ << answer << "\n";
  if (answer.empty()) return {Answer::Kind::kKept, ""};
  if (goes_back(answer)) return {Answer::Kind::kBack, ""};
  if (answer == "?") return {Answer::Kind::kHelp, ""};
  return {Answer::Kind::kGiven, choice_of(answer, question.choices)};
}

void LinePrompter::say(const std::string& line) {
  out_ << shown(line) << "\n" << std::flush;
}

Answer MenuPrompter::ask(const Question& question) {
  if (question.choices.empty()) return LinePrompter::ask(question);
  Menu menu(question.choices, question.current, wants_color());
  const RawMode raw;
  bool headed = false;
  for (;;) {
    if (!headed) out_ << shown(question.text) << "\n";
    headed = true;
    const winsize size = window();
    menu.draw(out_, size.ws_col, size.ws_row);
    const Pressed pressed = read_key();
    switch (pressed.key) {
      case Key::kUp:
        menu.up();
        break;
      case Key::kDown:
        menu.down();
        break;
      case Key::kFirst:
        menu.first();
        break;
      case Key::kLast:
        menu.last();
        break;
      case Key::kDigit:
        menu.pick(pressed.digit);
        break;
      case Key::kRedraw:
        menu.forget();
        headed = false;
        break;
      case Key::kOther:
        break;
      case Key::kBack:
        menu.erase(out_);
        return {Answer::Kind::kBack, ""};
      case Key::kHelp:
        menu.erase(out_);
        return {Answer::Kind::kHelp, ""};
      case Key::kEnter:
      case Key::kEnd: {
        menu.erase(out_);
        const bool ended = pressed.key == Key::kEnd;
        out_ << (ended ? question.current : menu.chosen()) << "\n" << std::flush;
        return {ended ? Answer::Kind::kEnd : Answer::Kind::kGiven, menu.chosen()};
      }
    }
  }
}

bool is_interactive() {
  return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

std::unique_ptr<config::Prompter> make_prompter() {
  const char* const kind = std::getenv("TERM");
  const bool moves_cursor = kind != nullptr && *kind != '\0' && std::strcmp(kind, "dumb") != 0;
  if (is_interactive() && moves_cursor) return std::make_unique<MenuPrompter>(std::cin, std::cout, false);
  return std::make_unique<LinePrompter>(std::cin, std::cout, isatty(STDIN_FILENO) == 0);
}

}  // namespace trainer::cli
