// Tells repeated stop requests from duplicate signals.
#pragma once

#include <signal.h>

#include <chrono>
#include <map>

namespace trainer::launch {

// Note [Stop signals]
// One request to stop may arrive as many signals. A scheduler signals every process of a job, so launchers receive it
// from outside and from each other; `timeout` signals its child, then its child's group; npm, torchrun and a shell's
// trap forward a signal that the whole group received; a closing terminal sends SIGHUP several times; schedulers send
// SIGUSR1 or SIGINT first and SIGTERM later, shortly before SIGKILL. None of these must cost a save. So a launcher
// stops at once only when it receives the same signal twice itself, from outside: SIGINT twice or SIGTERM twice, at
// least one second apart. A different signal is the same request, and so are SIGHUP and SIGUSR1, however often they
// arrive.

/// The stop signals that this launcher itself has received during an attempt.
class StopSignals {
 public:
  using Clock = std::chrono::steady_clock;

  /// `together`: signals of one kind within this time are one request.
  explicit StopSignals(std::chrono::milliseconds together) : together_(together) {}

  /// Whether `signal`, received now, repeats the request: the run must then stop without saving.
  bool is_repeated(int signal, Clock::time_point now) {
    const auto [first, is_first] = came_.emplace(signal, now);
    return !is_first && can_repeat(signal) && now - first->second >= together_;
  }

  /// Whether a second `signal` can repeat the request.
  static bool can_repeat(int signal) { return signal == SIGINT || signal == SIGTERM; }

 private:
  const std::chrono::milliseconds together_;
  std::map<int, Clock::time_point> came_;  // when each kind first arrived
};

}  // namespace trainer::launch
