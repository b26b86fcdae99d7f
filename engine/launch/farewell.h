// A launcher that fails before it has met the other machines.
#pragma once

#include "engine/base/errors.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/plan/plan.h"

namespace trainer::launch {

/// Tells the other machines of the job that this launcher ends with `error`, so that they end too, with the same exit
/// code. Without it they would wait for this machine until --join_timeout: srun lets the other tasks of a step run when
/// one fails (without --kill-on-bad-exit), and never starts a task again. Does nothing if the launcher may be started
/// again. `plan`: null if the failure is about the configuration; a port that only the file sets is then unknown.
/// Waits for at most 10 seconds. Throws nothing.
void report_failed_start(const config::StartedRank& started, const config::Plan* plan, const Error& error);

}  // namespace trainer::launch
