// Starts the ranks of a run on this machine, and watches them until they end.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/plan/plan.h"
#include "engine/launch/machines.h"
#include "engine/launch/outcome.h"
#include "engine/launch/rank_places.h"
#include "engine/launch/replication.h"
#include "engine/launch/run_status.h"
#include "engine/launch/signals.h"
#include "engine/launch/terms.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {

struct Patience {
  std::chrono::milliseconds cause{200};        ///< after a first failure, for one that explains it better
  WatchPatience watch{};                       ///< with ranks that are alive but make no progress
  std::chrono::milliseconds distant{2000};     ///< as `cause`, after a lost peer in a run on several machines
  std::chrono::milliseconds pause{1'000};      ///< before a restart when the last one got no further; doubles each time
  std::chrono::milliseconds join{600'000};     ///< for all machines to connect
  std::chrono::milliseconds last_call{5'000};  ///< for more machines to connect, once there are enough of a range
  std::chrono::milliseconds rejoin{1'000};     ///< before a machine joins a third time in ten minutes: Admissions
  std::chrono::milliseconds silence{10'000};   ///< of another machine, before it counts as lost
  std::chrono::milliseconds kill_wait{0};      ///< from SIGTERM to the scheduler's SIGKILL (SLURM's KillWait); 0: none
  std::chrono::milliseconds together{1'000};   ///< stop signals of a kind within it are one: Note [Stop signals]
};

/// One attempt of a run: see Note [Attempts].
struct Attempt {
  Terms terms;
  int machine = 0;  // this machine's number in the configuration, as shown to users
  // Decides whether another one follows, unless the text says why not. If there are several machines, by machine 0.
  std::function<void(Outcome&, const std::string& why_not)> judge;
  bool shares_folder = true;           // all machines see machine 0's output folder
  std::string owner;                   // of the output folder (FolderOwner); "" if another machine owns it
  std::string peer_key{};              // of the connections between this attempt's ranks; "": they have none
  Replication* replication = nullptr;  // null: checkpoints aren't copied
};

/// How ranks are started.
struct RankProgram {
  std::vector<std::string> words;  // the program and its arguments
  std::vector<RankPlace> places;   // of each rank of this machine; empty: wherever this process may
};

/// Runs `program` as this machine's part of plan.world_size() processes, and returns the outcome; on several machines,
/// machine 0 decides it. For a rank's environment and what counts as its failure, see run(). Keeps `status` up to date.
/// Errors: MachineError when a rank can't be started.
Outcome supervise(const config::Plan& plan, const Attempt& attempt, const RankProgram& program,
                  const Patience& patience, Machines& machines, SignalQueue& signals, RunStatus& status);

}  // namespace trainer::launch
