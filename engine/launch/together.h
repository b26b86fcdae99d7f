// What the machines of a run do together between their meeting and the start of their ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/launch/machines.h"
#include "engine/launch/place.h"
#include "engine/launch/signals.h"

namespace trainer::launch {

/// What is done before ranks start, while the output folder is locked already, and how it ended.
struct Preparation {
  int code = 0;         // 0, or the exit code of the run
  std::string message;  // why, when it isn't 0
};
using Prepare = std::function<Preparation()>;

/// Machine 0 puts a file into its `folder`, and the others look for it in theirs: checkpoints are written by the ranks
/// of all machines, into one folder. Errors: MachineError, on every machine, when one doesn't see it; PeerError when a
/// machine is lost; StoppedBeforeStart.
void check_shared_folder(const std::filesystem::path& folder, const Place& place, Machines& machines,
                         SignalQueue& signals);

/// Each machine runs `prepare`, beside serving its lines; returns when all are done, with the first that failed.
/// Errors: PeerError when a machine is lost; StoppedBeforeStart.
Preparation prepare_together(const Prepare& prepare, const Place& place, Machines& machines, SignalQueue& signals);

}  // namespace trainer::launch
