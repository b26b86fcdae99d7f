// Why and when the ranks of a life have to end.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>

#include "engine/launch/failure.h"
#include "engine/launch/outcome.h"
#include "engine/launch/store.h"

namespace trainer::launch {

/// What is known of that on this machine: failures, the wish of somebody that the run stops, or machines that have come
/// and for which this life makes way. It knows the time, and touches no process.
class Ending {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// `cause`: after a first failure, for one that explains it better; `distant`: the same, when it is just a lost peer.
  /// `grace`: for saving, after a stop signal.
  Ending(Milliseconds cause, Milliseconds distant, Milliseconds grace)
      : cause_(cause), distant_(distant), grace_(grace) {}

  /// Whether something ends the life already, be it a stop; newcomers then have to wait.
  bool is_near() const { return stopping_ || killed_ || has_failed(); }
  /// Whether nobody looks for further failures. While it makes way there is no time-out, so they do count.
  bool is_settled() const { return killed_ || has_failed() || (stopping_ && newcomers_.empty()); }
  bool has_failed() const { return !failures_.empty(); }
  bool is_asked() const { return stop_signal_ != 0; }
  /// SIGINT or SIGTERM: what ranks are sent; 0: nobody asked.
  int signal_for_ranks() const { return stop_signal_ == 0 || stop_signal_ == SIGINT ? stop_signal_ : SIGTERM; }

  /// Somebody asked with this signal; the first one counts.
  void stop(int signal);
  /// A rank has stopped and saved, with this exit code: ranks may agree to stop without us, when one alone got a
  /// signal.
  void rank_has_stopped(int code);
  void others_have_stopped() { stopping_ = true; }
  /// For these machines.
  void make_way(const std::string& newcomers);
  /// Why a stop came without a save; the first reason stays.
  void was_not_saved(const std::string& why);
  const std::string& why_not_saved() const { return not_saved_; }

  /// Nothing after this counts: it is our doing.
  void kill() { killed_ = true; }
  bool is_killed() const { return killed_; }

  void add(Failure failure) { failures_.add(std::move(failure)); }
  /// Where all ranks were when the first failure became known.
  void note_states(RankStates states) { states_ = std::move(states); }
  const RankStates& states() const { return states_; }
  /// Gives a better cause time to arrive: among several machines (`in_company`) a lost peer may be another machine's,
  /// whose word takes longer.
  void come_soon(bool in_company);

  enum class Due { kNothing, kCause, kSave };
  /// What was waited for in vain, once.
  Due passed(Clock::time_point now);
  std::optional<Clock::time_point> next_deadline() const;

  /// How the life has ended. `finished`: all ranks of this machine report the end of the run; `step`: the last;
  /// `names_ranks`: there are several.
  Outcome outcome(bool finished, int64_t step, bool names_ranks) const;

 private:
  Outcome failed(bool names_ranks) const;
  Outcome stopped(int64_t step) const;

  Milliseconds cause_, distant_, grace_;
  Failures failures_;
  RankStates states_;
  bool stopping_ = false;  // somebody asked, or there are newcomers
  bool killed_ = false;
  int stop_signal_ = 0;  // the one that asked
  std::string newcomers_;
  std::string not_saved_;  // "" while it may have been
  std::optional<Clock::time_point> stop_deadline_, cause_deadline_;
};

}  // namespace trainer::launch
