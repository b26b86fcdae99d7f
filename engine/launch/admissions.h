// How often a machine may make a running generation yield to it.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "engine/launch/store.h"

namespace trainer::launch {

/// A machine that is lost again and again, and restarted each time, would cost the others a save and a restart of their
/// ranks each time. Within ten minutes, it may join twice at once; before each further time it stays connected for a
/// while first, twice as long as the time before. Not thread-safe.
class Admissions {
 public:
  /// `first`: the wait before a third time.
  explicit Admissions(std::chrono::milliseconds first) : first_(first) {}

  /// The machine has joined a generation, in which it wasn't before.
  void note(int machine, Clock::time_point now);
  /// How long the machine must have been connected before a generation yields to it; 0: not at all.
  std::chrono::milliseconds wait_of(int machine, Clock::time_point now) const;

 private:
  std::chrono::milliseconds first_;
  std::map<int, std::vector<Clock::time_point>> joined_;
};

}  // namespace trainer::launch
