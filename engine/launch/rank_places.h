// The CPUs and the GPU of each rank.
#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/visible_gpus.h"
#include "engine/config/sections.h"

namespace trainer::launch {

/// Where a process of this machine was put by the program that started it.
struct PeerPlace {
  cpu_set_t cpus{};
  std::string gpu;  // its first GPU, VisibleGpu::id(); "" unless CUDA_VISIBLE_DEVICES selects some
};

/// This process's own.
PeerPlace own_place();

/// Where a rank runs.
struct RankPlace {
  std::optional<cpu_set_t> cpus;  // nothing: wherever this process may
  std::string gpu;                // the only one that it sees; "": all that this process sees
  int ranks_on_gpu = 1;           // if it has such a `gpu`
};

/// The places of this machine's ranks, by local rank; empty if nothing restricts them. A rank sees a single GPU if
/// `peers` were given different ones, and if the GPUs are MIG instances, of which a process can use only one. With
/// enable_cpu_affinity, its CPUs are those of its GPU's NUMA node (/sys under `root`), as far as it may use them.
/// Errors: ConfigError if a peer has a GPU that this process can't reach, or if peers have the same one.
std::vector<RankPlace> rank_places(const config::Config& config, const GpuMachine& machine,
                                   const std::optional<std::string>& visible, const std::vector<PeerPlace>& peers,
                                   const std::filesystem::path& root = "/");

/// The GPUs that ranks at these `places` use: their own, else config::gpus_of_ranks().
std::vector<VisibleGpu> gpus_in_use(const config::Config& config, const GpuMachine& machine,
                                    const std::optional<std::string>& visible, const std::vector<RankPlace>& places);

}  // namespace trainer::launch
