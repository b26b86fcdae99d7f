// The supervisor's own output.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/safe_text.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer::launch {

/// Prints a line to standard error, over an unfinished progress bar. Like screen::write(), it never fails.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = safe_text(fmt::format(format, std::forward<Args>(args)...));
  const std::string over_progress_bar = isatty(STDERR_FILENO) == 1 ? "\r\x1b[K" : "";
  screen::write(STDERR_FILENO, over_progress_bar + wrapped_for(STDERR_FILENO, text));
}

/// Like say(), but keeps the last line: a progress bar, mostly with the terminal's ^C after it. One write, because the
/// ranks draw too.
inline void say_below_last_line(std::string_view line) {
  const std::string below = isatty(STDERR_FILENO) == 1 ? "\n" : "";
  screen::write(STDERR_FILENO, below + wrapped_for(STDERR_FILENO, safe_text(line)));
}

}  // namespace trainer::launch
