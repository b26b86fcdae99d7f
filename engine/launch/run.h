// A run from its preparation to its outcome.
#pragma once

#include <string>
#include <vector>

#include "engine/config/plan/plan.h"
#include "engine/launch/supervisor.h"
#include "engine/launch/together.h"

namespace trainer::launch {

/// kTemporary: the caller deletes the output folder afterward, so messages don't say what is in it.
enum class Output { kLasting, kTemporary };

/// Runs `prepare`, and then `worker_path words…` as this machine's part of plan.world_size() processes, restarting them
/// when that may help (Note [Attempts]). Returns the exit code of the run (the contract's), the same on all its
/// machines: see Note [Several machines]. A rank's environment holds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// the threads it may use, its Link and its board. Standard output is rank 0's. When a rank fails, the others are
/// killed, and the cause is reported in one block, last on the screen, and in outcome.json; Note [Watching ranks]
/// defines what counts as a failure. SIGINT, SIGTERM, SIGHUP and SIGUSR1 (as SIGTERM) are forwarded to the ranks, which
/// save and exit with 130 or 143; a second signal (Note [Stop signals]) or a time-out kills them. SIGQUIT (Ctrl-\)
/// shows the state of every rank, SIGUSR2 makes them save and continue. No process outlives this call, or this process.
/// Machine 0 locks the output folder meanwhile. `places`: where each rank of this machine may run; empty: wherever this
/// process may. Meanwhile logging.metrics_port, if set, serves the state of the run. Must be called on the main thread
/// of a single-threaded program. Errors: MachineError when the output folder is in use or can't be written, when
/// metrics can't be served, or when a rank can't be started; ConfigError for an unknown logging.metrics_address; those
/// of Leader::gather().
int run(const config::Plan& plan, const std::string& worker_path, const Patience& patience = {},
        const Prepare& prepare = {}, const std::vector<std::string>& words = {"rank"},
        const std::vector<RankPlace>& places = {}, Output output = Output::kLasting);

}  // namespace trainer::launch
