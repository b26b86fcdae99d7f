#include "engine/launch/attempts.h"

#include <signal.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestPause{60'000};
constexpr int kSameEnds = 3;  // in a row, until restarts are given up

}  // namespace

std::string with_second_line(const std::string& message, const std::string& line) {
  const size_t end = std::min(message.find('\n'), message.size());
  return message.substr(0, end) + "\n  " + line + message.substr(end);
}

bool worth_another_attempt(int code) {
  if (code == kPeerFailure) return true;
  if (code <= 128 || code == kInterrupted || code == kStopRequested) return false;
  const int signal = code - 128;
  return signal != SIGILL && signal != SIGXCPU && signal != SIGXFSZ;
}

Attempts::Attempts(const config::Config& config, milliseconds first_pause)
    : max_(config.max_restarts),
      output_dir_(config.output_dir),
      is_host_(config.machine_rank == 0),
      first_pause_(first_pause),
      checkpoint_before_(newest_checkpoint(config.output_dir)),
      newest_(checkpoint_before_) {}

Terms Attempts::terms() const {
  return {
      .attempt = number_, .restarts = restarts_, .resumes = number_ > 0 && has_saved(newest_checkpoint(output_dir_))};
}

void Attempts::take(const Terms& terms) {
  number_ = terms.attempt;
  restarts_ = terms.restarts;
  resumes_ |= terms.resumes;
}

void Attempts::look() {
  try {
    newest_ = newest_checkpoint(output_dir_);
  } catch (const MachineError&) {
  }
}

void Attempts::judge(Outcome& outcome, const std::string& why_not) {
  outcome.restarts = restarts_;
  outcome.again = outcome.grows;
  if (outcome.grows || max_ == 0 || !worth_another_attempt(outcome.code)) return;
  if (!why_not.empty()) {
    outcome.message = with_second_line(outcome.message, why_not);
    return;
  }
  look();
  const std::pair end(newest_, outcome.step);
  without_progress_ = last_end_ == end ? without_progress_ + 1 : 0;
  last_end_ = end;
  std::string why;
  if (without_progress_ + 1 >= kSameEnds)
    why = fmt::format("gave up: it ended here {} times in a row, so a restart does not help", kSameEnds);
  else if (restarts_ >= max_)
    why = fmt::format("gave up: all {} restarts (max_restarts) are spent", max_);
  if (why.empty()) {
    outcome.again = true;
    return;
  }
  outcome.code = kGaveUp;
  outcome.message = with_second_line(outcome.message, why);
}

milliseconds Attempts::begin_next(const Outcome& ended) {
  look();
  ++number_;
  restarts_ = std::max(restarts_, ended.restarts) + (ended.grows ? 0 : 1);
  if (without_progress_ == 0) return milliseconds(0);
  return std::min(first_pause_ * (1 << std::min(without_progress_ - 1, 16)), kLongestPause);
}

std::string Attempts::text(const Outcome& ended, bool sees_checkpoints) const {
  const std::string from = sees_checkpoints && has_saved(newest_) ? "from " + newest_
                           : sees_checkpoints && is_host_         ? "from where the run started"
                                                                  : "from where the leader reports";
  return ended.grows ? "continuing with more machines, " + from
                     : fmt::format("restart {} of {}, {}", restarts_, max_, from);
}

}  // namespace trainer::launch
