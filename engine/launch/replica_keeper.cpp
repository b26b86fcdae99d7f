#include "engine/launch/replica_keeper.h"

#include "engine/launch/background.h"

namespace trainer::launch {

bool ReplicaKeeper::take(Machine& from, LinkMessage& message) {
  if (message.op != LinkOp::kCopyOffer && message.op != LinkOp::kCopyPart) return false;
  if (from.number == 0) receiver_.take(std::move(message));
  return true;
}

std::optional<Clock::time_point> ReplicaKeeper::next_deadline() const {
  return receiver_.is_busy() ? std::optional(Clock::now() + kLookAgain) : std::nullopt;
}

}  // namespace trainer::launch
