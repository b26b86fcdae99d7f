// Whom a machine of a run without a shared folder follows, and when it may lead: Notes [Votes] and [Succession].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/launch/introduction.h"
#include "engine/launch/leadership.h"
#include "engine/launch/machines.h"
#include "engine/launch/meeting.h"
#include "engine/launch/signals.h"
#include "engine/launch/succession.h"
#include "engine/launch/votes.h"

namespace trainer::launch {

class Election {
 public:
  /// Keeps up to date what `own` says about votes. Errors: those of Votes.
  Election(const Appointment& appointment, Introduction& own);

  const Votes& votes() const { return votes_; }
  /// This machine was in the last generation that it knows of, before this process began.
  bool has_taken_part() const;
  /// Where the others reach this machine: known once it has taken part.
  const std::string& address() const { return address_; }
  void set_address(const std::string& address) { address_ = address; }
  /// This machine can't listen, or can't lead for another reason.
  void exclude() { is_excluded_ = true; }
  /// The run has ended.
  void forget() { votes_.forget(); }

  /// The attempt has ended, or the leader was lost before it; `has_died`: its launcher, and so its ranks. Otherwise it
  /// is preferred to others until its ranks have stopped.
  void note_end(bool has_died);
  /// This machine leads no longer. `leader`: the one that does, if it is known.
  void step_down(std::optional<LeaderPlace> leader);
  /// Another machine leads.
  void note_leader(const LeaderPlace& leader) { leader_ = leader; }

  /// Where a leader may be, besides the appointed address.
  std::vector<LeaderPlace> places() const;
  /// Before a leader is looked for again. `listens`: this machine asks for votes.
  void update(bool listens);
  bool is_turn() const { return Clock::now() >= turn_; }
  /// Why this machine can't be voted for; "" if it can.
  std::string why_not() const;

  /// The votes for an attempt, on its leader, which `leads`, or a follower: propose() or vote().
  Membership vote(Leadership* leads, Machines& machines, SignalQueue& signals);
  /// agree().
  void agree(const Membership& next, bool is_leader, Machines& machines, SignalQueue& signals);

 private:
  const Appointment& appointment_;
  Introduction& own_;
  Votes votes_;
  std::string address_;
  Clock::time_point turn_ = Clock::now();  // from which on other leaders than the last one count
  std::optional<LeaderPlace> leader_;      // of which this machine has been told
  bool is_excluded_ = false;
};

}  // namespace trainer::launch
