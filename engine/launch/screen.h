// Lines of the supervisor's own.
#pragma once

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "engine/base/safe_text.h"

namespace trainer::launch {

/// A line of ours on the screen, over an unfinished progress bar.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = safe_text(fmt::format(format, std::forward<Args>(args)...));
  fmt::print(stderr, "{}{}", isatty(STDERR_FILENO) ? "\r\x1b[K" : "", text);
}

}  // namespace trainer::launch
