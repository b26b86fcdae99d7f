#include "engine/cli/terminal.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "engine/config/scalar.h"

namespace trainer::cli {
namespace {

constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

termios saved_terminal;  // for the signal handler, which can reach nothing else

void restore_and_die(int signal) {
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_terminal);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

/// Keys arrive one by one and are not shown, until the end of the scope or of the program.
class RawMode {
 public:
  RawMode() {
    tcgetattr(STDIN_FILENO, &saved_terminal);
    for (std::size_t i = 0; i < std::size(kDeadly); ++i) {
      struct sigaction action {};
      action.sa_handler = restore_and_die;
      sigaction(kDeadly[i], &action, &before_[i]);
    }
    termios raw = saved_terminal;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
  }
  ~RawMode() {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_terminal);
    for (std::size_t i = 0; i < std::size(kDeadly); ++i) sigaction(kDeadly[i], &before_[i], nullptr);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  struct sigaction before_[std::size(kDeadly)];
};

enum class Key { kUp, kDown, kEnter, kDigit, kEnd, kOther };
struct Pressed {
  Key key;
  std::size_t digit = 0;
};

int read_byte() {
  unsigned char byte;
  return read(STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

Pressed read_key() {
  constexpr int kEscape = 27, kControlD = 4;
  const int byte = read_byte();
  if (byte == -1 || byte == kControlD) return {Key::kEnd};
  if (byte == '\n' || byte == '\r') return {Key::kEnter};
  if (byte >= '1' && byte <= '9') return {Key::kDigit, static_cast<std::size_t>(byte - '0')};
  if (byte == 'k') return {Key::kUp};
  if (byte == 'j') return {Key::kDown};
  if (byte != kEscape) return {Key::kOther};
  const int bracket = read_byte();
  if (bracket != '[' && bracket != 'O') return {Key::kOther};
  const int arrow = read_byte();
  return {arrow == 'A' ? Key::kUp : arrow == 'B' ? Key::kDown : Key::kOther};
}

std::size_t index_of(const std::vector<std::string>& choices, const std::string& current) {
  auto it = std::find(choices.begin(), choices.end(), current);
  return it == choices.end() ? 0 : static_cast<std::size_t>(it - choices.begin());
}

}  // namespace

std::optional<std::string> LinePrompter::ask(const std::string& question, const std::string& current,
                                             const std::vector<std::string>& choices) {
  out_ << question << (current.empty() || !choices.empty() ? "" : " [" + current + "]")
       << (choices.empty() ? ": " : "\n");
  for (std::size_t i = 0; i < choices.size(); ++i) out_ << fmt::format("  {}  {}\n", i + 1, choices[i]);
  if (!choices.empty()) out_ << "[" << current << "]: ";
  out_ << std::flush;
  std::string answer;
  if (!std::getline(in_, answer)) {
    out_ << "\n";
    return std::nullopt;
  }
  const auto last = answer.find_last_not_of(" \t\r");
  const auto first = answer.find_first_not_of(" \t");
  if (echo_) out_ << answer << "\n";
  answer = last == std::string::npos ? "" : answer.substr(first, last - first + 1);
  const auto number = config::parse_int(answer);
  const bool numbered = number && *number >= 1 && static_cast<std::size_t>(*number) <= choices.size();
  return numbered ? choices[static_cast<std::size_t>(*number) - 1] : answer;
}

void LinePrompter::say(const std::string& line) {
  out_ << line << "\n" << std::flush;
}

std::optional<std::string> MenuPrompter::ask(const std::string& question, const std::string& current,
                                             const std::vector<std::string>& choices) {
  if (choices.empty()) return LinePrompter::ask(question, current, choices);
  std::size_t at = index_of(choices, current);
  auto draw = [&] {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      out_ << (i == at ? "\r\033[K \033[32m➔\033[0m  " : "\r\033[K    ") << choices[i] << "\n";
    }
    out_ << std::flush;
  };
  auto back_up = [&](std::size_t lines) { out_ << "\033[" << lines << "A"; };
  out_ << question << "\nPlease select with the arrow or number keys, and enter\n";
  draw();
  const RawMode raw;
  for (;;) {
    const Pressed pressed = read_key();
    if (pressed.key == Key::kEnter || pressed.key == Key::kEnd) {
      back_up(choices.size() + 1);
      out_ << "\r\033[J" << choices[at] << "\n" << std::flush;
      if (pressed.key == Key::kEnd) return std::nullopt;
      return choices[at];
    }
    if (pressed.key == Key::kUp) at = (at + choices.size() - 1) % choices.size();
    if (pressed.key == Key::kDown) at = (at + 1) % choices.size();
    if (pressed.key == Key::kDigit && pressed.digit <= choices.size()) at = pressed.digit - 1;
    back_up(choices.size());
    draw();
  }
}

std::unique_ptr<config::Prompter> make_prompter() {
  const bool typed = isatty(STDIN_FILENO);
  if (typed && isatty(STDOUT_FILENO)) return std::make_unique<MenuPrompter>(std::cin, std::cout, false);
  return std::make_unique<LinePrompter>(std::cin, std::cout, !typed);
}

}  // namespace trainer::cli
