// Looks at the ranks' boards, so that a run with a rank that stands still or goes astray ends at once, and says why.
#pragma once

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
// A rank that dies is seen by its parent, and its connections break. One that is stopped, that computes for ever, or
// that calls another collective than its peers is not seen by anyone: its peers wait, by torch's default for 30
// minutes. So each rank writes on its board (engine/base/rank_board.h), in memory that it shares with the supervisor,
// which step and unit it is in, and each collective it calls; and a thread of its does nothing but count beats. The
// supervisor looks twice a second. All collectives of a group so far are summed up in a signature; where two ranks have
// different ones for the same number, one has gone astray, even if the transport has paired the calls and carried on
// with wrong numbers. One that hangs while its process beats is known by how long updates take (Pace): it shows no
// change for ten times as long, and waits for nobody. That its peers wait says less: it may read its next batch from a
// slow disk, which only the supervisor of its own machine can see, and for which there is the longer patience. Seconds
// are counted by the supervisor's looks: after a pause of the whole machine nobody is late.

struct WatchPatience {
  double frozen = 10;  ///< seconds without a beat
  double stuck = 2;    ///< seconds in which all ranks wait for each other
  double hung = 30;    ///< seconds in which a rank gets no further within an update, at least
  double tell = 60;    ///< seconds of waiting until it is told on the screen
  double late = 1800;  ///< seconds of waiting until the run ends
};

class Watchdog {
 public:
  /// What only the parent of a rank knows.
  struct Subject {
    pid_t pid = 0;
    bool running = true;  // neither has it ended nor reported its end
  };

  /// Of the `ranks` ranks of this machine, from `first_rank` on. Errors: MachineError.
  Watchdog(int first_rank, int ranks, int world_size, const WatchPatience& patience);

  /// The boards, for the ranks to inherit.
  int board_fd() const { return boards_.fd(); }

  Clock::time_point next_look() const { return next_look_; }
  /// `subjects`: the ranks of this machine, in order. What has to end the run, if anything.
  std::optional<Failure> look(const std::vector<Subject>& subjects);

  /// As they were at the last look.
  const RankStates& states() const { return states_; }
  const RankState* state(int rank) const;

  /// A line for the screen about ranks that have waited long; "" when there is nothing new.
  std::string take_notice();

 private:
  void refresh(const std::vector<Subject>& subjects, double seconds);

  const int first_rank_, world_size_;
  const WatchPatience patience_;
  Boards boards_;
  RankStates states_;
  Pace pace_;  // of the first of our ranks; all of a run go together
  std::optional<Clock::time_point> last_look_;
  Clock::time_point next_look_;
  bool told_ = false;  // of the wait that is going on
  std::string notice_;
};

/// One line for each rank: where it is.
std::string table_of(const RankStates& ranks);

}  // namespace trainer::launch
