// Starting the ranks of a run on this machine, and staying with them to the end.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/plan.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {

struct Patience {
  std::chrono::milliseconds stop{25'000};  ///< for saving after a stop signal: less than the 30 s that Kubernetes gives
  std::chrono::milliseconds cause{200};    ///< after a first failure, for one that explains it better
  WatchPatience watch{};                   ///< with ranks that are alive, and don't go on
  std::chrono::milliseconds distant{2000};    ///< the same, when it is just a lost peer and there are several machines
  std::chrono::milliseconds join{600'000};    ///< for all machines to come together
  std::chrono::milliseconds silence{10'000};  ///< of another machine, before it counts as lost
};

/// What is done before ranks start, while the output folder is locked already, and how it ended.
struct Preparation {
  int code = 0;         // 0, or the exit code of the run
  std::string message;  // why, when it isn't 0
};
using Prepare = std::function<Preparation()>;

/// Runs `prepare`, and then `worker_path words…` as this machine's part of plan.world_size() processes, and returns the
/// exit code of the run (the contract's), the same on all its machines: see [Note Several machines]. A rank finds in
/// its environment RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, the threads it may use, its Link and its board.
/// Standard output is rank 0's. When a rank fails, the others are killed, and the cause is told in one block, last on
/// the screen, and in outcome.json; [Note Watching ranks] says what counts as failing. SIGINT, SIGTERM and SIGHUP (as
/// SIGTERM) are handed to the ranks, which save and exit with 130 or 143; a second one, or the end of patience, kills
/// them. SIGQUIT (Ctrl-\) shows where every rank is. No process outlives this call, or this process. The output folder
/// is locked meanwhile, by machine 0. To be called on the main thread of a program with one thread.
/// Errors: MachineError when the output folder is in use or can't be written, or when a rank can't be started; those of
/// meet() and check_shared_folder().
int run(const config::Plan& plan, const std::string& worker_path, const Patience& patience = {},
        const Prepare& prepare = {}, const std::vector<std::string>& words = {"rank"});

}  // namespace trainer::launch
