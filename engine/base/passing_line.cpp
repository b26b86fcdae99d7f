#include "engine/base/passing_line.h"

#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer {

PassingLine::PassingLine(int fd) : fd_(fd), on_terminal_(isatty(fd) == 1) {}

PassingLine::~PassingLine() {
  if (drawn_ && on_terminal_) screen::write(fd_, screen::kClearLine);
}

bool PassingLine::is_due() const {
  constexpr std::chrono::milliseconds kOnTerminal{100}, kElsewhere{10'000};
  return Clock::now() - last_ >= (on_terminal_ ? kOnTerminal : kElsewhere);
}

void PassingLine::show(const std::string& line) {
  if (!is_due()) return;
  last_ = Clock::now();
  drawn_ = true;
  screen::write(fd_, on_terminal_ ? screen::kClearLine + truncated(line, terminal_width(fd_)) : line + "\n");
}

double PassingLine::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace trainer
