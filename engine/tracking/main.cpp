// trainer-tracker: `trainer launch` starts it when logging.report_to has mlflow. The first line of its input is the job
// ({"output_dir", "resumes", "version"}); it answers with one line, "" or why it can't; the second line is the status
// of the run at its end. Without one, the launcher was killed.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/screen.h"
#include "engine/tracking/tracker.h"

namespace trainer::tracking {
namespace {

constexpr int kPause = 1000;  // milliseconds between looks at metrics.jsonl

/// Lines of standard input.
class Input {
 public:
  /// Waits up to `patience` milliseconds (-1: for ever) for a line; false when there is none yet. At the end of the
  /// input, is_closed() becomes true.
  bool line(std::string& text, int patience) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (held_.find('\n') == std::string::npos) {
      if (poll(&input, 1, patience) <= 0) return false;
      char bytes[4096];
      const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
      if (count <= 0) {
        is_closed_ = true;
        return false;
      }
      held_.append(bytes, static_cast<size_t>(count));
    }
    text = held_.substr(0, held_.find('\n'));
    held_.erase(0, text.size() + 1);
    return true;
  }
  bool is_closed() const { return is_closed_; }

 private:
  std::string held_;
  bool is_closed_ = false;
};

int run() {
  Input input;
  std::string text;
  if (!input.line(text, -1)) return kInternalFailure;
  const auto json = bounded_json<nlohmann::json>(text);
  const Job job{json.at("output_dir").get<std::string>(), json.at("resumes").get<bool>(),
                json.at("version").get<std::string>()};
  std::optional<Tracker> tracker;
  try {
    tracker.emplace(job, mlflow_settings());
  } catch (const ConfigError& error) {
    screen::write(STDOUT_FILENO, error.what());
    return kUsageFailure;
  }
  close(STDOUT_FILENO);  // the answer is that there is nothing to say
  std::string status = "KILLED";
  while (!input.line(status, kPause) && !input.is_closed()) tracker->advance();
  tracker->finish(status);
  return kDone;
}

}  // namespace
}  // namespace trainer::tracking

int main() {
  using namespace trainer;
  screen::open_missing();
  screen::outlive();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) signal(number, SIG_IGN);
  try {
    return tracking::run();
  } catch (const std::exception& error) {
    screen::error("trainer-tracker: {}\n", error.what());
    return kInternalFailure;
  }
}
