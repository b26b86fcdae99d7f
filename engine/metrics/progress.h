// Progress on the screen.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/metrics/progress_bar.h"
#include "engine/metrics/records.h"

namespace trainer::metrics {

/// Shows the run's progress: on a terminal a bar in the last line, redrawn at most ten times a second; elsewhere a
/// plain line for each logged update. Belongs to one rank and one thread. Other output to the terminal should begin
/// with `screen::kClearLine` meanwhile, as the lines of engine/base/log.h do; the bar is redrawn below it. Never fails:
/// a closed screen must not end a run.
class Progress {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// The run goes from `first_step`, the one of the checkpoint or 0, to `total_steps`.
  Progress(int64_t first_step, int64_t total_steps, int fd = STDERR_FILENO, Clock now = std::chrono::steady_clock::now);
  /// Leaves the last state on the screen and moves the cursor to the next line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// An update is done. Cheap: most calls draw nothing.
  void advance(int64_t step);
  /// An activity other than updates ("evaluating 3/20"); "" when it is over.
  void set_activity(const std::string& activity);
  void report(const StepRecord& record);
  void report(const EvaluationRecord& record);
  /// A line above the bar.
  void print(const std::string& line);
  /// The run is over: the bar stays as it is.
  void finish();

 private:
  void redraw_if_due();
  void redraw();
  void update_time_left();
  /// Once, after some updates of a run that takes a while: how long it will take.
  void print_estimate();
  void write(const std::string& text) const;

  const int64_t first_step_;
  const int fd_;
  const Clock now_;
  const bool on_terminal_;
  ProgressState state_;
  std::chrono::steady_clock::time_point start_, last_drawn_;
  std::chrono::steady_clock::time_point after_first_;  // update, which is slower than others
  bool drawn_ = false;                                 // the bar is in the last line
};

}  // namespace trainer::metrics
