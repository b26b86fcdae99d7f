// What the machines of a run do together between their meeting and the start of their ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/launch/machines.h"
#include "engine/launch/signals.h"
#include "engine/launch/terms.h"

namespace trainer::launch {

/// What is done before ranks start, while the output folder is locked already, and how it ended.
struct Preparation {
  int code = 0;         // 0, or the exit code of the run
  std::string message;  // why, when it isn't 0
};
using Prepare = std::function<Preparation()>;

/// Guest: waits for the next life and returns what machine 0 says of it. Errors: LostBeforeStart; StoppedBeforeStart;
/// EndedBefore, and what the host ended the run with.
Terms hear_terms(Machines& machines, SignalQueue& signals);

/// Machine 0 puts a file into its `folder`, and the others look for it in theirs. Returns, on every machine, which one
/// doesn't see it and why; "" when all do. Errors: LostBeforeStart; StoppedBeforeStart. Machine 0's
/// errors must be told to the others.
std::string who_sees_another_folder(const std::filesystem::path& folder, bool is_host, Machines& machines,
                                    SignalQueue& signals);

/// Runs `prepare` beside serving the lines. Errors: LostBeforeStart; StoppedBeforeStart.
Preparation prepare_beside(const Prepare& prepare, Machines& machines, SignalQueue& signals);

/// All machines do; returns when all are done, with the first that failed. Errors: as above. Machine 0's, and the
/// failure, must be told to the others.
Preparation prepare_together(const Prepare& prepare, bool is_host, Machines& machines, SignalQueue& signals);

}  // namespace trainer::launch
