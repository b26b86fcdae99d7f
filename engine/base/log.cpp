#include "engine/base/log.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include "engine/base/safe_text.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer::log {
namespace {

const char* color_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::info:
      return "\x1b[32m";
    case spdlog::level::warn:
      return "\x1b[33m\x1b[1m";
    case spdlog::level::err:
      return "\x1b[31m\x1b[1m";
    default:
      return "\x1b[36m";
  }
}

/// Standard error. spdlog's own sinks block on a terminal that accepts nothing: Note [Lost screens].
class Screen : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    spdlog::details::log_msg shown = message;
    std::string whole(message.payload.data(), message.payload.size());
    if (message.level == spdlog::level::warn) whole.insert(0, "warning: ");
    if (terminal_) whole = wrapped(whole, terminal_width(STDERR_FILENO), 2);
    shown.payload = whole;
    formatter_->format(shown, line);
    std::string text(line.data(), line.size());
    if (colors_ && shown.color_range_end > shown.color_range_start) {
      text.insert(shown.color_range_end, "\x1b[m");
      text.insert(shown.color_range_start, color_of(shown.level));
    }
    screen::write(STDERR_FILENO, text);
  }
  void flush_() override {}

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const bool colors_ = wants_color() && spdlog::details::os::is_color_terminal();
};

std::shared_ptr<spdlog::logger>& logger() {
  static auto instance = std::make_shared<spdlog::logger>("trainer", std::make_shared<Screen>());
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

/// What was logged before there is a file, to which it goes later. A rank connects to others, and may have to report
/// who else tried to, before it may write into the output folder.
struct Early {
  std::mutex mutex;
  bool is_over = false;
  std::vector<std::pair<spdlog::level::level_enum, std::string>> lines;
};

Early& early() {
  static Early lines;
  return lines;
}

/// Keeps a line until a file is opened.
void keep(spdlog::level::level_enum level, const std::string& line) {
  constexpr std::size_t kMost = 100;
  const std::lock_guard lock(early().mutex);
  if (!early().is_over && early().lines.size() < kMost) early().lines.emplace_back(level, line);
}

void write_early(spdlog::sinks::sink& file) {
  const std::lock_guard lock(early().mutex);
  for (const auto& [level, line] : early().lines) file.log(spdlog::details::log_msg("trainer", level, line));
  early().lines.clear();
  early().is_over = true;
}

/// One line instead of spdlog's, which come once a second. Training needs no log.
void report_lost_log(const std::string& why) {
  static std::atomic<bool> reported = false;
  if (reported.exchange(true)) return;
  screen::write(STDERR_FILENO,
                "warning: the log cannot be written; the run continues without it: " + safe_text(why) + "\n");
}

}  // namespace

void open(Level least, const std::string& prefix, const std::string& file) {
  auto screen = std::make_shared<Screen>();
  screen->set_level(level_of(least));
  screen->set_pattern(screen::over_progress_bar(STDERR_FILENO) +
                      (prefix.empty() ? "%^%v%$" : fmt::format("%^[{}] %v%$", prefix)));
  std::vector<spdlog::sink_ptr> sinks{screen};
  if (!file.empty()) {
    auto to_file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    to_file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    write_early(*to_file);
    sinks.push_back(to_file);
  }
  logger() = std::make_shared<spdlog::logger>("trainer", sinks.begin(), sinks.end());
  logger()->set_level(spdlog::level::debug);
  logger()->set_error_handler(report_lost_log);
  logger()->flush_on(spdlog::level::info);
}

void write(Level level, std::string_view message) {
  const std::string line = safe_text(message);
  keep(level_of(level), line);
  logger()->log(level_of(level), "{}", line);
}

}  // namespace trainer::log
