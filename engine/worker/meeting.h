#pragma once

#include <memory>

#include "engine/base/link.h"
#include "engine/config/sections.h"
#include "engine/dist/comm.h"

namespace trainer::worker {

/// Collective. All ranks of the run, by the library of training.ddp_backend. Errors: MachineError, PeerError.
std::unique_ptr<dist::Comm> meet(Link& link, const config::TrainingConfig& training);

}  // namespace trainer::worker
