// The joint steps of the machines between their meeting and the start of their ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/launch/machines.h"
#include "engine/launch/signals.h"
#include "engine/launch/terms.h"

namespace trainer::launch {

/// The result of the work before ranks start, done while the output folder is already locked.
struct Preparation {
  int code = 0;         // 0, or the exit code of the run
  std::string message;  // why, when it isn't 0
};
using Prepare = std::function<Preparation()>;

/// Follower: waits for the next attempt and returns its terms. Errors: LostBeforeStart; StoppedBeforeStart;
/// EndedBefore, and the leader's reason for ending the run.
Terms hear_terms(Machines& machines, SignalQueue& signals);

/// Machine 0 writes a file into its `folder`, and the others look for it in theirs. Returns, on every machine, which
/// machine doesn't see it and why; "" when all do. Errors: LostBeforeStart; StoppedBeforeStart. Machine 0 must forward
/// its errors to the others.
std::string who_sees_another_folder(const std::filesystem::path& folder, bool is_leader, Machines& machines,
                                    SignalQueue& signals);

/// Runs `prepare` while serving the connections. Errors: LostBeforeStart; StoppedBeforeStart.
Preparation prepare_beside(const Prepare& prepare, Machines& machines, SignalQueue& signals);

/// Runs prepare_beside() on all machines; returns when all are done, with the first failure. Errors: as above. Machine
/// 0 must forward its errors and the failure to the others.
Preparation prepare_together(const Prepare& prepare, bool is_leader, Machines& machines, SignalQueue& signals);

}  // namespace trainer::launch
