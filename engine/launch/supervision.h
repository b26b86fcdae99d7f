// What a launcher does while the ranks of an attempt run.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "engine/launch/ending.h"
#include "engine/launch/exchange.h"
#include "engine/launch/failure.h"
#include "engine/launch/machines.h"
#include "engine/launch/mpi_slots.h"
#include "engine/launch/outcome.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/ranks.h"
#include "engine/launch/stop_signals.h"
#include "engine/launch/supervisor.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {

/// One attempt on this machine, from the start of its ranks to its outcome. Its parts are in several files, by what
/// they deal with.
class Supervision {
 public:
  Supervision(const config::Plan& plan, const Attempt& attempt, const RankProgram& program, const Patience& patience,
              Machines& machines, SignalQueue& signals, RunStatus& status)
      : plan_(plan),
        attempt_(attempt),
        status_(status),
        plan_text_(config::to_text(plan)),
        program_(program),
        patience_(patience),
        assignment_(rank_assignment_of(plan)),
        signals_(signals),
        machines_(machines),
        exchange_(assignment_, machines, ranks_),
        ending_(patience.cause, patience.distant,
                std::chrono::milliseconds(std::llround(1000 * plan.config.checkpoint.grace_seconds))),
        stop_signals_(patience.together),
        watchdog_(assignment_.first_rank(), assignment_.ranks, static_cast<int>(plan.world_size()), patience.watch) {}

  void start();
  Outcome watch();
  void show_last_words() const { ranks_.show_last_words(); }

 private:
  // supervisor.cpp: the loop
  void wait_for_events();
  int milliseconds_to_next_deadline() const;
  void pass_deadlines();
  void note_status();
  bool has_to_stay() const;
  Outcome outcome() const;
  Outcome judged() const;

  // supervision_stop.cpp
  void take_signals();
  void ask_to_save();
  void stop_all(int signal);
  void stop(int signal);
  void stop_at_once();
  std::chrono::milliseconds grace_before_kill() const;
  std::string why_abandoned() const;
  void kill_all();

  // supervision_ranks.cpp
  void reap();
  void check_seats();
  void bury(Rank& rank, int status);
  void read_line(Rank& rank);
  void take_message(Rank& rank, const LinkMessage& message);
  std::optional<Failure> look();
  void look_after_ranks();
  void show_ranks();
  void fail(Rank& rank, Failure failure);
  void add_own(Failure failure);
  void add(Failure failure);
  bool is_ours(int rank) const { return rank >= 0 && assignment_.machine_of(rank) == assignment_.machine; }
  std::string own_name() const;

  // supervision_machines.cpp
  void hear_machines();
  void take_letter(Machine& machine, LinkMessage letter);
  void lose(const Machine& machine);
  void let_in();
  void grow(const std::string& newcomers);
  bool copies_are_due() const;
  void copy_checkpoints();
  void say_finished();
  void end_all();

  const config::Plan& plan_;
  const Attempt& attempt_;
  RunStatus& status_;
  const std::string plan_text_;
  const RankProgram program_;
  const Patience patience_;
  const RankAssignment assignment_;
  SignalQueue& signals_;
  Machines& machines_;
  std::optional<MpiSlots> slots_;
  Ranks ranks_;
  Exchange exchange_;
  Ending ending_;
  StopSignals stop_signals_;
  Watchdog watchdog_;
  bool said_finished_ = false;          // the leader knows that our ranks have ended
  bool replication_knows_end_ = false;  // so does what copies checkpoints
  std::optional<Outcome> verdict_;      // the leader's outcome of the run; on several machines only
  std::optional<Clock::time_point> verdict_deadline_;
  bool save_asked_ = false;  // and not forwarded yet
  bool is_cut_ = false;      // the scheduler leaves less time to save than checkpoint.grace_seconds
};

}  // namespace trainer::launch
