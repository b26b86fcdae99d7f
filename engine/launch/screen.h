// The supervisor's own output.
#pragma once

#include <unistd.h>

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "engine/base/safe_text.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer::launch {

/// Prints a text to standard error, after `before` and in one write with it, because the ranks draw too. Like
/// screen::write(), it never fails.
inline void say_after(const char* before, std::string_view text) {
  screen::write(STDERR_FILENO, before + wrapped_for(STDERR_FILENO, safe_text(text)));
}

/// Prints a line over an unfinished progress bar.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_after(screen::over_progress_bar(STDERR_FILENO), fmt::format(format, std::forward<Args>(args)...));
}

/// Prints a line below the last one: a progress bar, mostly with the terminal's ^C after it.
inline void say_below(std::string_view line) {
  say_after(isatty(STDERR_FILENO) == 1 ? "\n" : "", line);
}

}  // namespace trainer::launch
