// The leader: the machine which the others connect to; machine 0, unless it was lost (Note [Succession]).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/launch/admissions.h"
#include "engine/launch/entrance.h"
#include "engine/launch/herald.h"
#include "engine/launch/meeting.h"
#include "engine/launch/terms.h"
#include "engine/launch/votes.h"

namespace trainer::launch {

/// The leader keeps its port until the run ends: another program that took it would make restarts impossible. Machines
/// that connect while the run is in progress wait for the next attempt; only a run whose number of machines is a range
/// yields to them. After the first generation has begun, a machine that must not join is only rejected; it cannot end
/// the run.
class Leader : public Door {
 public:
  /// `epoch`: of its leadership; 0: it has none, and only turns machines away, or asks for votes. See Note [Leader
  /// epochs].
  Leader(const Appointment& appointment, const Introduction& own, SignalQueue& signals, int64_t epoch);
  /// Between attempts, for connections from now on.
  void set_epoch(int64_t epoch) { epoch_ = epoch; }
  /// Makes this leadership's epoch higher than `above` and returns it; 0: another machine leads.
  using Outbid = std::function<int64_t(int64_t above)>;
  /// To be called when a machine has followed a higher epoch before this leader has led anything: its disk was
  /// replaced, and the number lost with it. Without it, such a leader counts as superseded.
  void on_higher_epoch(Outbid outbid) { outbid_ = std::move(outbid); }
  /// Instead of the first meeting, when this machine succeeds a leader that was lost, or asks to: listens. Errors:
  /// MachineError.
  void succeed();
  /// Attempts need a majority from now on, which `votes` defines: Note [Votes]; null: they don't.
  void need_majority(const Votes* votes) { votes_ = votes; }
  /// Whether the machines that are connected can make up an attempt.
  bool could_begin() const { return size_of(static_cast<int>(here().size()) + 1) > 0 && why_no_majority().empty(); }
  /// Tells machine 0, which is appointed to lead at `appointment`, unless it is connected, that this one does, at
  /// `place`.
  void tell_machine_0(const Appointment& appointment, const LeaderPlace& place) {
    if (!herald_) herald_.emplace(appointment);
    herald_->set_leader(place, epoch_);
  }

  struct Gathered {
    Machines machines;
    Terms terms;
  };
  /// Thrown where attempts need a majority: another machine leads, or this one can't.
  struct SteppedDown {
    std::string why;
    std::optional<LeaderPlace> leader{};  // if it is known
  };
  /// Listens on the appointed address until all machines have connected and proved that they know the secret, or enough
  /// have and the last call is over; then sends each of them `terms`, completed with its rank assignment. Reports on
  /// standard error which machines it waits for. Errors: PeerError when too few connect in time and, in the first
  /// meeting, when one has a different secret or build; in the first meeting also ConfigError, on every machine, with
  /// all differences of their configurations, or when there is no secret and the address is open; MachineError when it
  /// can't listen on that address, or was superseded; SteppedDown.
  Gathered gather(Terms terms);
  /// A machine has followed a leader of a higher epoch.
  bool is_superseded() const { return !superseded_.empty(); }
  /// The other leader, if it is known.
  const std::optional<LeaderPlace>& successor() const { return successor_; }
  std::string superseded() const override { return votes_ != nullptr ? superseded_ : ""; }
  /// Sends the outcome of the run to the machines that still wait to join.
  void dismiss_all(const LinkMessage& last);
  /// Instead of gather(), when machine 0 has failed before: tells the others, as they connect, that the run has ended,
  /// until all of them know or `patience` is over.
  void turn_away(int code, const std::string& why, std::chrono::milliseconds patience);

  void add_events(std::vector<pollfd>& events) const override;
  void serve() override;
  Clock::time_point next_deadline() const override { return next_ping_; }
  std::string newcomers() const override;
  void attempt_has_ended() override { phase_ = Phase::kBetween; }

 private:
  enum class Phase { kFirstMeeting, kMeeting, kAttempt, kBetween };

  /// Whether a follower can have this number.
  bool is_follower(int machine) const { return machine >= 0 && machine < own_.machines && machine != own_.machine; }
  void listen();
  void listen_soon();
  void wait(Clock::time_point until);
  void hear(Visitor& visitor);
  void greet(Visitor& visitor, const LinkMessage& hello);
  void admit(Visitor& visitor, Introduction who);
  void meet_higher_epoch(Visitor& visitor);
  void hear_leader(Visitor& visitor, const LinkMessage& leads);
  void welcome(Visitor& visitor);
  void doubt(Visitor& visitor, const std::string& why);
  void refuse(Visitor& visitor, int code, const std::string& why);
  void hear_end(Visitor& visitor, const LinkMessage& end);
  void send_away(Visitor& visitor, int code, const std::string& why, bool ends_meeting = true);
  void ping();
  void dismiss();
  void check_settings();
  void lose(const Visitor& visitor);
  [[noreturn]] void call_off(int code, const std::string& why);
  [[noreturn]] void give_up();
  bool is_complete();
  std::chrono::milliseconds last_call() const;
  void step_down_if_needed(Clock::time_point without_majority_since) const;
  std::string why_no_majority() const;
  Gathered take_along(Terms terms);

  /// The largest usable number of machines, out of `machines`; 0: too few to continue.
  int size_of(int machines) const;
  std::vector<int> here() const;
  std::vector<int> missing() const;
  void say_who_is_missing() const;
  /// Whether the machine has joined so often lately that it has to wait before it does again.
  bool is_too_early(const Visitor& visitor) const;
  const Visitor* numbered(int machine) const;
  Visitor* numbered(int machine) { return const_cast<Visitor*>(std::as_const(*this).numbered(machine)); }

  const Appointment& appointment_;
  const Introduction& own_;
  SignalQueue& signals_;
  Phase phase_ = Phase::kFirstMeeting;
  Entrance entrance_;
  Admissions admissions_;
  std::vector<Visitor> visitors_;
  std::set<int> in_attempt_;  // followers in the current generation, or in the last one
  std::set<int> expected_;    // followers for which the meeting waits
  std::optional<Clock::time_point> last_call_;
  std::optional<LinkMessage> farewell_;  // machine 0 has failed, and turns everyone away
  std::set<int> told_;                   // the machines that know
  Clock::time_point next_ping_ = Clock::now();
  int strangers_ = 0;
  int64_t epoch_;
  Outbid outbid_;
  std::string superseded_;  // by whom; "": as far as is known, by nobody
  std::optional<LeaderPlace> successor_;
  const Votes* votes_ = nullptr;
  std::optional<Herald> herald_;
};

}  // namespace trainer::launch
