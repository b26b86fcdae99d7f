// The processes of an attempt's ranks on this machine.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/launch/line.h"
#include "engine/launch/output_tail.h"
#include "engine/launch/process.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {

/// A rank's process and what is known of it.
struct Rank {
  int number = 0;
  pid_t pid = 0;
  bool alive = true;
  bool done = false;         // it reported the end of the run
  bool reported = false;     // it reported a failure
  bool silent = false;       // it died without a report
  bool has_updated = false;  // it has finished an update
  int64_t step = -1;
  std::string phase;
  Line line;
  FileDescriptor errors;
  OutputTail last_words;

  /// Reads its standard error: one chunk at a time while it is alive, so that a rank that floods it doesn't block the
  /// others; the rest once it is dead.
  void read_errors();
};

class Ranks {
 public:
  Ranks() = default;
  /// Kills the ranks that are left, with everything they started. See kReapPatience.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Starts the next rank, which is `number`. Errors: MachineError.
  void start(int number, const Command& command, const sigset_t& mask);

  auto begin() { return ranks_.begin(); }
  auto end() { return ranks_.end(); }
  auto begin() const { return ranks_.begin(); }
  auto end() const { return ranks_.end(); }
  Rank& numbered(int number);

  bool any_alive() const;
  /// All have reported the end of the run.
  bool all_done() const;
  /// The latest step of any rank; -1: none has begun.
  int64_t last_step() const;

  void add_events(std::vector<pollfd>& events) const;
  std::vector<Watchdog::Subject> subjects() const;

  /// Reaps the ranks that have ended, kills what they started, and calls `buried` with each one and its wait status.
  template <class F>
  void reap(const F& buried) {
    for (Rank& rank : ranks_) {
      int status = 0;
      if (has_ended(rank, status)) buried(rank, status);
    }
  }
  /// Sends a signal to the ranks that are alive.
  void signal(int signal) const;
  void kill_all();
  /// When to stop waiting for killed ranks: the kernel may hold them.
  std::optional<Clock::time_point> give_up_at() const;
  /// Reports the ranks that have not ended although they were killed, and no longer counts them as alive.
  void give_up();

  /// Prints the last output of the ranks that died without a report.
  void show_last_words() const;
  /// Prints the call stack of a rank. Comes before a report, which has no room for it.
  static void show_stack(const Rank& rank);

 private:
  static bool has_ended(Rank& rank, int& status);

  std::vector<Rank> ranks_;
  std::optional<Clock::time_point> killed_at_;
};

}  // namespace trainer::launch
