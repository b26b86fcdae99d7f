#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace trainer::dist::shm {

/// A counter in memory that several processes map: one rank raises it, others sleep until it is high enough. It starts
/// as zeroed memory and may wrap around.
struct Signal {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;

  uint32_t now() const { return value.load(std::memory_order_acquire); }
  bool reached(uint32_t target) const { return static_cast<int32_t>(now() - target) >= 0; }
  /// Everything that the caller has written before is seen by those that find the new value.
  void raise(uint32_t target);
  /// Whether `target` was reached before `patience` ended. Polls for `spins` rounds before it sleeps.
  bool wait(uint32_t target, int spins, std::chrono::milliseconds patience);
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace trainer::dist::shm
