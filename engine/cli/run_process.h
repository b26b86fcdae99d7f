// The launcher of a run, as another program of this machine sees it.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace trainer::cli {

/// Asks the launcher `pid`, which the lock file of `folder` names, to save. That text proves nothing, and the signal
/// would end most programs: the process gets it only if it has that lock file open and handles the signal.
/// Errors: InputError when it has ended; MachineError when it isn't provably the run's launcher, or can't be reached.
void ask_to_save(const std::filesystem::path& folder, pid_t pid);

}  // namespace trainer::cli
