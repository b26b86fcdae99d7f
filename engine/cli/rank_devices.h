// The devices of this machine's ranks, checked before anything is started.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/sections.h"
#include "engine/launch/rank_places.h"

namespace trainer::cli {

struct RankDevices {
  std::vector<launch::RankPlace> places;
  int64_t free_bytes = 0;  // for each rank, on the fullest of their GPUs; 0: unknown, or they train on the CPU
};

/// Logs the GPUs of this machine's ranks, or why they train on the CPU. `peers`: the processes that were started here.
/// Errors: MachineError for GPUs that no rank can train on; those of launch::rank_places().
RankDevices check_devices(const config::Config& config, const std::vector<launch::PeerPlace>& peers = {});

/// For a command with `--device cuda`. Errors: MachineError if `ranks` ranks can't have a GPU each here.
void require_gpus(int64_t ranks);

/// For one process with `--device cuda`: checks its GPU as check_devices() does. Errors: of both functions above.
void check_first_gpu();

}  // namespace trainer::cli
