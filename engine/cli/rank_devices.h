// The devices of this machine's ranks, checked before anything is started.
#pragma once

#include <vector>

#include "engine/config/sections.h"
#include "engine/launch/rank_places.h"

namespace trainer::cli {

/// Logs the GPUs of this machine's ranks, or why they train on the CPU; returns the places of the ranks.
/// Errors: MachineError for GPUs that no rank can train on; those of launch::rank_places().
std::vector<launch::RankPlace> check_devices(const config::Config& config, const std::vector<launch::PeerPlace>& peers);

}  // namespace trainer::cli
