// Which stop signal asks once more.
#pragma once

#include <signal.h>

#include <chrono>
#include <map>

namespace trainer::launch {

// Note [Stop signals]
// One request to stop arrives as many signals. A scheduler signals every process of a job, so that launchers hear of it
// from outside and from each other; `timeout` signals its child, then its child's group; npm, torchrun and a shell's
// trap pass on what the whole group got; a terminal that closes sends SIGHUP several times; schedulers send SIGUSR1 or
// SIGINT first and SIGTERM later, shortly before SIGKILL. None of these may cost a save. So a launcher stops at once
// only for a signal that it got itself, from outside, before: SIGINT twice, or SIGTERM twice, and at least a second
// apart. Another kind of signal, as well as SIGHUP and SIGUSR1 however often, is the same request.

/// The stop signals that this launcher itself has got in a life.
class StopSignals {
 public:
  using Clock = std::chrono::steady_clock;

  /// `together`: how close signals of a kind are one request.
  explicit StopSignals(std::chrono::milliseconds together) : together_(together) {}

  /// Whether `signal`, which has come now, asks once more: the run is to stop without saving.
  bool is_repeated(int signal, Clock::time_point now) {
    const auto [first, is_first] = came_.emplace(signal, now);
    return !is_first && can_repeat(signal) && now - first->second >= together_;
  }

  /// Whether a second `signal` may ask once more.
  static bool can_repeat(int signal) { return signal == SIGINT || signal == SIGTERM; }

 private:
  const std::chrono::milliseconds together_;
  std::map<int, Clock::time_point> came_;  // when each kind came first
};

}  // namespace trainer::launch
