// The supervisor's own output.
#pragma once

#include <unistd.h>

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

/// Leaves what is in the last line, such as a progress bar with the terminal's ^C after it.
inline void keep_last_line() {
  if (isatty(STDERR_FILENO) == 1) screen::write(STDERR_FILENO, "\n");
}

}  // namespace trainer::launch
