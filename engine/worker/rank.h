#pragma once

#include <functional>

#include "engine/dist/comm.h"
#include "engine/train/trainer.h"

namespace trainer::worker {

/// Collective. What a rank does once it is set up.
using RankWork = std::function<train::Ending(train::Trainer& trainer, dist::Comm& comm)>;

/// One rank of a run, started by the supervisor: sets up what the plan says and does `work`. Returns the exit code and
/// never throws: failures go to the supervisor.
int run_rank(const RankWork& work);

}  // namespace trainer::worker
