#include "engine/base/log.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "engine/base/safe_text.h"

namespace trainer::log {
namespace {

std::shared_ptr<spdlog::logger>& logger() {
  static auto instance = spdlog::stderr_color_mt("trainer");
  return instance;
}

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void open(Level least, const std::string& prefix, const std::string& file) {
  auto screen = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  screen->set_level(level_of(least));
  const char* over_progress_bar = isatty(STDERR_FILENO) ? "\r\x1b[K" : "";  // it stands in the last line, unfinished
  screen->set_pattern(over_progress_bar + (prefix.empty() ? "%^%v%$" : fmt::format("%^[{}] %v%$", prefix)));
  std::vector<spdlog::sink_ptr> sinks{screen};
  if (!file.empty()) {
    auto to_file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    to_file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    sinks.push_back(to_file);
  }
  logger() = std::make_shared<spdlog::logger>("trainer", sinks.begin(), sinks.end());
  logger()->set_level(spdlog::level::debug);
  logger()->flush_on(spdlog::level::info);
}

void write(Level level, std::string_view message) {
  logger()->log(level_of(level), "{}", safe_text(message));
}

}  // namespace trainer::log
