// The memory of every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/dist/comm.h"

namespace trainer::train {

/// Peaks in bytes, one of each rank.
struct RankMemory {
  std::vector<int64_t> resident, tensors;
};

/// Collective, one all-reduce.
RankMemory rank_memory(dist::Comm& comm);

}  // namespace trainer::train
