#include "engine/metrics/progress.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer::metrics {
namespace {

constexpr std::chrono::milliseconds kBetweenDraws{100};
constexpr int64_t kTimedUpdates = 4;      // for the estimate
constexpr double kEstimatedSeconds = 60;  // shorter runs need none

bool can_redraw(int fd) {
  const char* terminal = std::getenv("TERM");
  return isatty(fd) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

Progress::Progress(int64_t first_step, int64_t total_steps, int fd, Clock now)
    : first_step_(first_step), fd_(fd), now_(std::move(now)), on_terminal_(can_redraw(fd)) {
  state_.step = first_step;
  state_.total_steps = total_steps;
  start_ = now_();
  last_drawn_ = start_ - kBetweenDraws;
}

Progress::~Progress() {
  finish();
}

void Progress::advance(int64_t step) {
  state_.step = step;
  if (step == first_step_ + 1) after_first_ = now_();
  if (step == first_step_ + 1 + kTimedUpdates) print_estimate();
  redraw_if_due();
}

void Progress::print_estimate() {
  const double each = std::chrono::duration<double>(now_() - after_first_).count() / kTimedUpdates;
  const double left = each * static_cast<double>(state_.total_steps - state_.step);
  if (left < kEstimatedSeconds) return;
  print(fmt::format("time     about {} for the updates that are left, {} each, without evaluation and saving",
                    human_seconds(left), each < 1 ? fmt::format("{:.3g} ms", 1e3 * each) : human_seconds(each)));
}

void Progress::set_activity(const std::string& activity) {
  const bool begins = state_.activity.empty() && !activity.empty();
  state_.activity = activity;
  if (begins && on_terminal_) return redraw();  // it may take long until the next call
  redraw_if_due();
}

void Progress::report(const StepRecord& record) {
  state_.step = record.step;
  state_.last = record;
  if (on_terminal_) return redraw_if_due();
  update_time_left();
  write(progress_line(state_) + "\n");
}

void Progress::report(const EvaluationRecord& record) {
  if (!on_terminal_) return print(evaluation_line(record, state_.total_steps));
  print(evaluation_line(record, state_.total_steps, terminal_width(fd_)));
}

void Progress::print(const std::string& line) {
  write((on_terminal_ ? screen::kClearLine : "") + wrapped_for(fd_, line) + "\n");
  if (drawn_) redraw();
}

void Progress::finish() {
  if (!drawn_) return;
  redraw();
  write("\n");
  drawn_ = false;
}

void Progress::redraw_if_due() {
  if (on_terminal_ && now_() - last_drawn_ >= kBetweenDraws) redraw();
}

void Progress::redraw() {
  update_time_left();
  last_drawn_ = now_();
  drawn_ = true;
  // Leave one column free: terminals differ in what they do when the last one is written.
  write(screen::kClearLine + progress_bar(state_, terminal_width(fd_) - 1));
}

void Progress::update_time_left() {
  const int64_t done = state_.step - first_step_;
  if (done <= 0) return;
  const double elapsed = std::chrono::duration<double>(now_() - start_).count();
  state_.seconds_left = elapsed / static_cast<double>(done) * static_cast<double>(state_.total_steps - state_.step);
}

void Progress::write(const std::string& text) const {
  screen::write(fd_, text);
}

}  // namespace trainer::metrics
