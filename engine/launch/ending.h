// Why and when the ranks of an attempt must end.
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "engine/launch/failure.h"
#include "engine/launch/outcome.h"
#include "engine/launch/store.h"

namespace trainer::launch {

/// This machine's reasons to end the attempt: failures, a request to stop, or newly connected machines to which the
/// attempt yields. Keeps the deadlines, and touches no process.
class Ending {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// `cause`: how long to wait after a first failure for one that explains it better; `distant`: the same when the
  /// first failure is only a lost peer. `grace`: how long saving may take after a stop signal.
  Ending(Milliseconds cause, Milliseconds distant, Milliseconds grace)
      : cause_(cause), distant_(distant), grace_(grace) {}

  /// Whether the attempt is already ending, for any reason; newcomers then have to wait.
  bool is_near() const { return stopping_ || killed_ || has_failed(); }
  /// Whether further failures no longer matter. While the attempt yields to newcomers there is no time-out, so they do.
  bool is_settled() const { return killed_ || has_failed() || (stopping_ && newcomers_.empty()); }
  bool has_failed() const { return !failures_.empty(); }
  bool is_asked() const { return stop_signal_ != 0; }
  /// The name of the signal that requested the stop.
  std::string asked_by() const { return signal_name(stop_signal_); }
  /// The signal that ranks are sent, SIGINT or SIGTERM; 0 without a request to stop.
  int signal_for_ranks() const { return stop_signal_ == 0 || stop_signal_ == SIGINT ? stop_signal_ : SIGTERM; }

  /// From now on saving may take at most `grace`.
  void limit_grace(Milliseconds grace) { grace_ = std::min(grace_, grace); }
  Milliseconds grace() const { return grace_; }
  /// A request to stop arrived as this signal; the first one counts.
  void stop(int signal);
  /// A rank has stopped and saved, with this exit code: when a single rank gets a signal, the ranks agree to stop
  /// without the supervisor.
  void rank_has_stopped(int code);
  void others_have_stopped() { stopping_ = true; }
  /// The attempt yields to these machines.
  void yield(const std::string& newcomers);
  /// Why a stop happened without a save; the first reason is kept.
  void was_not_saved(const std::string& why);
  const std::string& why_not_saved() const { return not_saved_; }

  /// Nothing after this counts as a failure: we killed the ranks.
  void kill() { killed_ = true; }
  bool is_killed() const { return killed_; }

  void add(Failure failure) { failures_.add(std::move(failure)); }
  /// Where all ranks were when the first failure became known.
  void note_states(RankStates states) { states_ = std::move(states); }
  const RankStates& states() const { return states_; }
  /// Sets the deadline for a better cause: among several machines (`in_company`), a lost peer may be on another
  /// machine, whose report takes longer.
  void come_soon(bool in_company);

  enum class Due { kNothing, kCause, kSave };
  /// The deadline that has passed; each is reported once.
  Due passed(Clock::time_point now);
  std::optional<Clock::time_point> next_deadline() const;

  /// How the attempt has ended. `finished`: all ranks of this machine reported the end of the run; `step`: the last
  /// one; `names_ranks`: there are several ranks.
  Outcome outcome(bool finished, int64_t step, bool names_ranks) const;

 private:
  Outcome failed(bool names_ranks) const;
  Outcome stopped(int64_t step) const;

  Milliseconds cause_, distant_, grace_;
  Failures failures_;
  RankStates states_;
  bool stopping_ = false;  // on request, or for newcomers
  bool killed_ = false;
  int stop_signal_ = 0;  // the signal that requested the stop
  std::string newcomers_;
  std::string not_saved_;  // why nothing was saved; "" while a save may have succeeded
  std::optional<Clock::time_point> stop_deadline_, cause_deadline_;
};

}  // namespace trainer::launch
