// Watches the ranks' boards: a run with a rank that hangs or calls the wrong collective ends at once, with the reason.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/launch/boards.h"
#include "engine/launch/failure.h"
#include "engine/launch/pace.h"
#include "engine/launch/store.h"
#include "engine/launch/verdict.h"

namespace trainer::launch {

// Note [Watching ranks]
// A rank that dies is noticed by its parent, and its connections break. A rank that is stopped, computes forever, or
// calls another collective than its peers goes unnoticed: its peers wait, by torch's default for 30 minutes. So each
// rank writes on its board (engine/base/rank_board.h), in memory shared with the supervisor, which step and unit it is
// in, and each collective it calls; one of its threads only counts beats. The supervisor looks twice a second. A
// signature sums up all collectives of a group so far; if two ranks have different signatures for the same number, one
// of them called a wrong collective, even if the transport paired the calls and continued with wrong values. A rank
// that hangs while its process beats is detected by the duration of updates (Pace): it shows no change for ten times as
// long, and waits for no other rank. Waiting peers alone prove less: the rank may be reading its next batch from a slow
// disk, which only the supervisor of its own machine can see and for which the longer limit applies. Seconds are
// counted by the supervisor's looks: after a pause of the whole machine no rank is late.

struct WatchPatience {
  double frozen = 10;  ///< seconds without a beat
  double stuck = 2;    ///< seconds in which all ranks wait for each other
  double hung = 30;    ///< minimum seconds without progress within an update
  double tell = 60;    ///< seconds of waiting until it is reported on the screen
  double late = 1800;  ///< seconds of waiting until the run ends
};

class Watchdog {
 public:
  /// What only the parent of a rank knows.
  struct Subject {
    pid_t pid = 0;
    bool running = true;  // it has neither ended nor reported its end
  };

  /// For the `ranks` ranks of this machine, starting at `first_rank`. Errors: MachineError.
  Watchdog(int first_rank, int ranks, int world_size, const WatchPatience& patience);

  /// The boards, for the ranks to inherit.
  int board_fd() const { return boards_.fd(); }

  Clock::time_point next_look() const { return next_look_; }
  /// When measure_pace() is due: not later than look(), which needs what it has measured.
  Clock::time_point next_measure() const { return std::min(next_look_, next_measure_); }
  /// Observes how fast updates are made. Due more often than look() until that is known: a fast run makes a hundred
  /// updates between two looks.
  void measure_pace();
  /// `subjects`: the ranks of this machine, in order. Returns the failure that must end the run, if any.
  std::optional<Failure> look(const std::vector<Subject>& subjects);

  /// As they were at the last look.
  const RankStates& states() const { return states_; }
  const RankState* state(int rank) const;
  /// Boards::unreadable_file() of a rank of this machine.
  std::string unreadable_file(int rank) const { return boards_.unreadable_file(rank - first_rank_); }

  /// A line for the screen about ranks that have waited long; "" when there is nothing new.
  std::string take_notice();

 private:
  void refresh(const std::vector<Subject>& subjects, double seconds);

  const int first_rank_, world_size_;
  const WatchPatience patience_;
  Boards boards_;
  RankStates states_;
  Pace pace_;           // of this machine's first rank; all ranks of a run keep the same pace
  RankState measured_;  // that rank, when its pace was measured last
  std::optional<Clock::time_point> last_measure_;
  std::optional<Clock::time_point> last_look_;
  Clock::time_point next_look_, next_measure_;
  bool told_ = false;  // the current wait was reported
  std::string notice_;
};

/// The state of each rank, one line per rank.
std::string table_of(const RankStates& ranks);

}  // namespace trainer::launch
