// What ranks ask of the store, wherever they run.
#pragma once

#include <vector>

#include "engine/launch/machines.h"
#include "engine/launch/place.h"
#include "engine/launch/ranks.h"
#include "engine/launch/store.h"

namespace trainer::launch {

/// Machine 0 has the store; the others carry what their ranks ask to it, and its answers back.
class Exchange {
 public:
  Exchange(const Place& place, Machines& machines, Ranks& ranks) : place_(place), machines_(machines), ranks_(ranks) {}

  /// A request of a rank of ours.
  void ask(int rank, const LinkMessage& request);
  /// What another machine carries. One that breaks the protocol is lost.
  void deliver(Machine& machine, const LinkMessage& carried);
  /// Ends the waits whose time is up.
  void expire(Clock::time_point now);
  std::optional<Clock::time_point> next_deadline() const { return store_.next_deadline(); }
  /// A rank of ours is gone.
  void forget(int rank) { store_.forget(rank); }

 private:
  bool is_ours(int rank) const { return place_.machine_of(rank) == place_.machine; }
  void handle(int rank, const LinkMessage& request);
  void send(const std::vector<Store::Answer>& answers);

  const Place& place_;
  Machines& machines_;
  Ranks& ranks_;
  Store store_;
};

}  // namespace trainer::launch
