// What a launcher does about copies of checkpoints while an attempt runs: Note [Replicas].
#pragma once

#include <optional>
#include <string>

#include "engine/launch/machines.h"

namespace trainer::launch {

class Replication {
 public:
  virtual ~Replication() = default;
  /// Whether `message` was about copies.
  virtual bool take(Machine& from, LinkMessage& message) = 0;
  virtual void serve() = 0;
  virtual std::optional<Clock::time_point> next_deadline() const = 0;
  /// The ranks of this machine have ended; `finished`: the run is complete.
  virtual void ranks_have_ended(bool finished) = 0;
  /// The leader's checkpoints have fewer copies than wanted, and more can be made.
  virtual bool is_busy() const = 0;
  /// The newest checkpoint that was written or verified here; "": none.
  virtual std::string newest_whole() const = 0;
};

}  // namespace trainer::launch
