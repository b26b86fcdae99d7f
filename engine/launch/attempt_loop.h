// The attempts of a run, one after another: Note [Attempts].
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/config/plan/plan.h"
#include "engine/launch/attempts.h"
#include "engine/launch/leadership.h"
#include "engine/launch/machines.h"
#include "engine/launch/outcome.h"
#include "engine/launch/replicas.h"
#include "engine/launch/run_status.h"
#include "engine/launch/signals.h"
#include "engine/launch/status_server.h"
#include "engine/launch/supervisor.h"
#include "engine/launch/together.h"

namespace trainer::launch {

/// The inputs of a run on this machine.
struct Run {
  const config::Plan& plan;
  const RankProgram& program;
  const Patience& patience;
  const Prepare& prepare;
  std::unique_ptr<Leadership>& leads;  // null: another machine does
  RunStatus& status;
  StatusServer* server;  // null: none is wanted
};

Outcome unprepared(const Preparation& prepared);

/// Runs attempts until none follows; `door`: of the machine, served while it pauses between two; null: it has none.
Outcome live(const Run& run, SignalQueue& signals, const std::function<Door*()>& door,
             const std::function<Outcome(Attempts&)>& one);

/// Starts the ranks of an attempt, and watches them until they end.
Outcome supervise_attempt(const Run& run, Attempts& attempts, const Terms& terms, bool shares_folder,
                          const std::string& peer_key, Machines& machines, SignalQueue& signals,
                          const std::function<std::string(Machines&)>& why_lost, Replication* replication);

}  // namespace trainer::launch
