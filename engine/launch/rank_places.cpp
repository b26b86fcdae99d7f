#include "engine/launch/rank_places.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/listed.h"
#include "engine/base/log.h"
#include "engine/config/machine/device.h"

namespace trainer::launch {
namespace {

/// The GPUs that `peers` were given, if each got another one; otherwise all of them see the same.
std::vector<VisibleGpu> gpus_of_peers(const GpuMachine& machine, const std::vector<PeerPlace>& peers) {
  std::set<std::string> different;
  for (const PeerPlace& peer : peers) different.insert(peer.gpu);
  if (different.size() < peers.size() || different.contains("")) return {};
  std::vector<VisibleGpu> gpus;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const std::vector<VisibleGpu> found = visible_gpus(machine, peers[rank].gpu);
    if (found.empty())
      throw ConfigError(
          "process {} of this machine was given the GPU {}, which process 0, which starts all ranks, can't reach: it "
          "has {}\n  srun: use --gpus-per-node={} --gpu-bind=none instead of --gpus-per-task, or start one process on "
          "each machine (--ntasks-per-node=1)",
          rank, peers[rank].gpu, peers[0].gpu, peers.size());
    gpus.push_back(found.front());
  }
  return gpus;
}

/// The GPUs that all of this machine's processes see.
std::vector<VisibleGpu> gpus_of_all(const config::Config& config, const GpuMachine& machine,
                                    const std::optional<std::string>& visible, size_t peers) {
  std::vector<VisibleGpu> gpus = config::gpus_of_ranks(config, machine, visible);
  if (peers > 0 && std::ssize(gpus) < config::gpus_needed(config))
    throw ConfigError(
        "the {} processes of this machine were given {}, and each needs its own\n  srun: --gpus-per-task=1, or "
        "--gpus-per-node={} with --gpu-bind=none; training.ddp_backend: gloo lets ranks share a GPU",
        peers, counted(gpus.size(), "GPU", "GPUs"), peers);
  return gpus;
}

/// The CPUs of a GPU's NUMA node among `allowed`; nothing if unknown.
std::optional<cpu_set_t> cpus_near(const Gpu& gpu, const cpu_set_t& allowed, const std::filesystem::path& root) {
  cpu_set_t near;
  CPU_ZERO(&near);
  if (gpu.numa_node < 0) return {};
  for (const int cpu : cpus_of_node(gpu.numa_node, root))
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &near);
  return CPU_COUNT(&near) > 0 ? std::optional(near) : std::nullopt;
}

void bind_to_nodes(const std::vector<VisibleGpu>& gpus, const std::filesystem::path& root,
                   std::vector<RankPlace>& places) {
  const cpu_set_t own = own_place().cpus;
  std::set<int64_t> unknown;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const Gpu& gpu = *gpus[rank % gpus.size()].gpu;
    if (const auto near = cpus_near(gpu, places[rank].cpus.value_or(own), root))
      places[rank].cpus = near;
    else if (unknown.insert(gpu.number).second)
      log::warning("enable_cpu_affinity has no effect for GPU {}: {}", gpu.number,
                   gpu.numa_node < 0 ? "its NUMA node is unknown, or the machine has only one"
                                     : fmt::format("no CPU of its NUMA node {} is allowed here", gpu.numa_node));
  }
}

}  // namespace

PeerPlace own_place() {
  PeerPlace place;
  CPU_ZERO(&place.cpus);
  sched_getaffinity(0, sizeof place.cpus, &place.cpus);
  const std::optional<std::string> variable = cuda_visible_devices();
  if (!variable || variable->empty()) return place;
  if (const auto visible = visible_gpus(gpus_here(), variable); !visible.empty()) place.gpu = visible.front().id();
  return place;
}

std::vector<RankPlace> rank_places(const config::Config& config, const GpuMachine& machine,
                                   const std::optional<std::string>& visible, const std::vector<PeerPlace>& peers,
                                   const std::filesystem::path& root) {
  std::vector<RankPlace> places;
  for (const PeerPlace& peer : peers) places.push_back({.cpus = peer.cpus, .gpu = ""});
  if (!config::trains_on_gpus(config)) return places;
  std::vector<VisibleGpu> gpus = gpus_of_peers(machine, peers);
  const bool own = peers.size() > 1 && !gpus.empty();
  if (!own) gpus = gpus_of_all(config, machine, visible, peers.size());
  if (gpus.empty() || (!own && !has_instances(gpus) && !config.enable_cpu_affinity)) return places;
  const auto ranks = static_cast<size_t>(config::ranks_per_machine(config));
  places.resize(ranks);
  if (own || has_instances(gpus))
    for (size_t rank = 0; rank < ranks; ++rank) {
      places[rank].gpu = gpus[rank % gpus.size()].id();
      places[rank].ranks_on_gpu = static_cast<int>((ranks + gpus.size() - 1) / gpus.size());
    }
  if (config.enable_cpu_affinity) bind_to_nodes(gpus, root, places);
  return places;
}

std::vector<VisibleGpu> gpus_in_use(const config::Config& config, const GpuMachine& machine,
                                    const std::optional<std::string>& visible, const std::vector<RankPlace>& places) {
  if (places.empty() || places.front().gpu.empty()) return config::gpus_of_ranks(config, machine, visible);
  std::vector<VisibleGpu> gpus;
  for (const RankPlace& place : places)
    for (const VisibleGpu& one : visible_gpus(machine, place.gpu))
      if (std::find(gpus.begin(), gpus.end(), one) == gpus.end()) gpus.push_back(one);
  return gpus;
}

}  // namespace trainer::launch
