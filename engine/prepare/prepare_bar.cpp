#include "engine/prepare/prepare_bar.h"

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer::prepare {
namespace {

constexpr std::chrono::milliseconds kOnTerminal{100};
constexpr std::chrono::seconds kElsewhere{10};

}  // namespace

std::string prepare_line(double part, int64_t samples, double seconds) {
  std::string line =
      fmt::format("tokenizing {:3.0f} %  {} samples", 100 * part, human_count(static_cast<double>(samples)));
  if (seconds > 0) line += fmt::format("  {} per second", human_count(static_cast<double>(samples) / seconds));
  if (part > 0 && seconds > 1) line += fmt::format("  {} left", human_seconds(seconds * (1 - part) / part));
  return line;
}

PrepareBar::PrepareBar(int fd) : fd_(fd), on_terminal_(isatty(fd) == 1), start_(Clock::now()), last_(start_) {}

PrepareBar::~PrepareBar() {
  if (drawn_ && on_terminal_) screen::write(fd_, "\r\x1b[K");
}

void PrepareBar::show(double part, int64_t samples) {
  const auto now = Clock::now();
  if (now - last_ < (on_terminal_ ? std::chrono::duration_cast<Clock::duration>(kOnTerminal) : kElsewhere)) return;
  last_ = now;
  drawn_ = true;
  const std::string line = prepare_line(part, samples, std::chrono::duration<double>(now - start_).count());
  if (on_terminal_)
    screen::write(fd_, "\r\x1b[K" + truncated(line, terminal_width(fd_)));
  else
    screen::write(fd_, line + "\n");
}

}  // namespace trainer::prepare
