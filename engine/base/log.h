// Logging. This header hides spdlog: torch bundles another fmt that breaks spdlog when both are included.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace trainer::log {

enum class Level { kDebug, kInfo, kWarning, kError };

/// Lines of `least` and above go to standard error; all lines go to `file` too when it is not empty.
/// `prefix` names the source, e.g. "rank 1"; empty for the launcher.
void open(Level least, const std::string& prefix, const std::string& file = "");

void write(Level level, std::string_view message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
/// On the screen, "warning: " precedes the message.
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trainer::log
