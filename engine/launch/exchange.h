// Routes the store requests of all ranks, on every machine.
#pragma once

#include <vector>

#include "engine/launch/machines.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/ranks.h"
#include "engine/launch/store.h"

namespace trainer::launch {

/// Machine 0 holds the store; the other machines forward their ranks' requests to it, and its replies back.
class Exchange {
 public:
  Exchange(const RankAssignment& place, Machines& machines, Ranks& ranks)
      : assignment_(place), machines_(machines), ranks_(ranks) {}

  /// Handles or forwards a request from a rank of this machine.
  void ask(int rank, const LinkMessage& request);
  /// Handles a message that another machine forwards. A machine that breaks the protocol counts as lost.
  void deliver(Machine& machine, const LinkMessage& carried);
  /// Ends the waits that have timed out.
  void expire(Clock::time_point now);
  std::optional<Clock::time_point> next_deadline() const { return store_.next_deadline(); }
  /// A rank of this machine is gone.
  void forget(int rank) { store_.forget(rank); }

 private:
  bool is_ours(int rank) const { return assignment_.machine_of(rank) == assignment_.machine; }
  void handle(int rank, const LinkMessage& request);
  void send(const std::vector<Store::Answer>& answers);

  const RankAssignment& assignment_;
  Machines& machines_;
  Ranks& ranks_;
  Store store_;
};

}  // namespace trainer::launch
