// The ranks of a life that run on this machine, as processes.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/launch/line.h"
#include "engine/launch/output_tail.h"
#include "engine/launch/process.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {

/// What is known of one.
struct Rank {
  int number = 0;
  pid_t pid = 0;
  bool alive = true;
  bool done = false;      // it reported the end of the run
  bool reported = false;  // it reported a failure
  bool silent = false;    // it died without a report
  int64_t step = -1;
  std::string phase;
  Line line;
  FileDescriptor errors;
  OutputTail last_words;

  /// Takes what it has written to standard error: one piece while it lives, so that one that floods its errors doesn't
  /// keep us from the others; then all.
  void read_errors();
};

class Ranks {
 public:
  Ranks() = default;
  /// Kills those that are left, with all that they have started.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// The next one, which is `number`. Errors: MachineError.
  void start(int number, const Command& command, const sigset_t& mask);

  auto begin() { return ranks_.begin(); }
  auto end() { return ranks_.end(); }
  auto begin() const { return ranks_.begin(); }
  auto end() const { return ranks_.end(); }
  Rank& numbered(int number);

  bool any_alive() const;
  /// All have reported the end of the run.
  bool all_done() const;
  /// The furthest; -1: none has begun.
  int64_t last_step() const;

  void add_events(std::vector<pollfd>& events) const;
  std::vector<Watchdog::Subject> subjects() const;

  /// Buries those that have ended, and all that they started: `buried` is called with each and its wait status.
  template <class F>
  void reap(const F& buried) {
    for (Rank& rank : ranks_) {
      int status = 0;
      if (has_ended(rank, status)) buried(rank, status);
    }
  }
  /// To those that are alive.
  void signal(int signal) const;
  void kill_all() const;

  /// What those that died without a report wrote last.
  void show_last_words() const;
  /// The functions that a rank stands in. Above a report, which has no room for them.
  static void show_stack(const Rank& rank);

 private:
  static bool has_ended(Rank& rank, int& status);

  std::vector<Rank> ranks_;
};

}  // namespace trainer::launch
