// The supervisor's own output.
#pragma once

#include <unistd.h>

#include <fmt/format.h>

#include "engine/base/safe_text.h"
#include "engine/base/screen.h"

namespace trainer::launch {

/// Prints a line to standard error, over an unfinished progress bar. Like screen::write(), it never fails.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = safe_text(fmt::format(format, std::forward<Args>(args)...));
  screen::write(STDERR_FILENO, (isatty(STDERR_FILENO) ? "\r\x1b[K" : "") + text);
}

}  // namespace trainer::launch
