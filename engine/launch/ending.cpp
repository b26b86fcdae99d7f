#include "engine/launch/ending.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::launch {

void Ending::stop(int signal) {
  newcomers_.clear();  // they no longer join
  stop_signal_ = signal;
  stopping_ = true;
  stop_deadline_ = Clock::now() + grace_;
}

void Ending::rank_has_stopped(int code) {
  if (!stopping_) stop_deadline_ = Clock::now() + grace_;
  stopping_ = true;
  if (stop_signal_ == 0 && code == kInterrupted) stop_signal_ = SIGINT;
}

void Ending::yield(const std::string& newcomers) {
  stopping_ = true;
  newcomers_ = newcomers;
}

void Ending::was_not_saved(const std::string& why) {
  if (not_saved_.empty()) not_saved_ = why;
}

void Ending::come_soon(bool in_company) {
  const bool only_lost_peers = has_failed() && failures_.cause().code == kPeerFailure && failures_.cause().rank >= 0;
  const Clock::time_point deadline = Clock::now() + (only_lost_peers && in_company ? distant_ : cause_);
  if (!cause_deadline_ || deadline < *cause_deadline_) cause_deadline_ = deadline;
}

Ending::Due Ending::passed(Clock::time_point now) {
  if (cause_deadline_ && now >= *cause_deadline_) {
    cause_deadline_.reset();
    return Due::kCause;
  }
  if (stop_deadline_ && now >= *stop_deadline_) {
    stop_deadline_.reset();
    return Due::kSave;
  }
  return Due::kNothing;
}

std::optional<Clock::time_point> Ending::next_deadline() const {
  if (!cause_deadline_ || !stop_deadline_) return cause_deadline_ ? cause_deadline_ : stop_deadline_;
  return std::min(*cause_deadline_, *stop_deadline_);
}

Outcome Ending::outcome(bool finished, int64_t step, bool names_ranks) const {
  const bool only_lost_peers = has_failed() && failures_.cause().code == kPeerFailure;
  if (has_failed() && !(only_lost_peers && !not_saved_.empty())) return failed(names_ranks);
  return stopping_ && !(finished && not_saved_.empty()) ? stopped(step) : Outcome{};
}

Outcome Ending::failed(bool names_ranks) const {
  const Failure& cause = failures_.cause();
  const bool names = names_ranks && !failures_.is_shared();
  return {.code = cause.code,
          .rank = names ? cause.rank : -1,
          .step = cause.step,
          .phase = cause.phase,
          .message = cause.message,
          .ranks = states_,
          .machine = names ? cause.machine : ""};
}

Outcome Ending::stopped(int64_t step) const {
  if (!newcomers_.empty())
    return {.code = kStopRequested, .step = step, .message = newcomers_ + " can join", .grows = true};
  Outcome outcome;
  outcome.code = stop_signal_ == SIGINT ? kInterrupted : kStopRequested;
  outcome.step = step;
  outcome.message = fmt::format("stopped on {}", signal_name(stop_signal_ == 0 ? SIGTERM : stop_signal_));
  if (!not_saved_.empty()) outcome.message += "\n  " + not_saved_;
  return outcome;
}

}  // namespace trainer::launch
