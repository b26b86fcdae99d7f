#include "engine/dist/shm/signal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace trainer::dist::shm {
namespace {

// std::atomic::wait() works within one process only.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// Sequentially consistent on both sides: either the sleeper sees the new value, or this sees the sleeper.
void Signal::raise(uint32_t target) {
  value.store(target, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) futex(value, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Signal::wait(uint32_t target, int spins, std::chrono::milliseconds patience) {
  for (; spins > 0; --spins) {
    if (reached(target)) return true;
    pause_briefly();
  }
  if (reached(target)) return true;
  const auto end = std::chrono::steady_clock::now() + patience;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (true) {
    const uint32_t seen = value.load(std::memory_order_seq_cst);
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now());
    if (static_cast<int32_t>(seen - target) >= 0 || left.count() <= 0) break;
    const timespec timeout{left.count() / 1000000000, left.count() % 1000000000};
    futex(value, FUTEX_WAIT, seen, &timeout);  // returns at once if it has changed; early after a signal
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return reached(target);
}

}  // namespace trainer::dist::shm
