#include "engine/config/machine/device.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "engine/base/gpu_library.h"
#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/config/document/scalar.h"
#include "engine/config/machine/started_rank.h"

namespace trainer::config {
namespace {

/// Whether srun or mpirun let this process, one of several on its machine, see only GPUs of its own.
bool has_own_gpus() {
  const std::optional<StartedRank> started = started_rank();
  const bool bound = started && started->local_ranks > 1 && cuda_visible_devices();
  const int64_t visible = bound ? count_visible_gpus() : 0;
  return visible > 0 && visible < started->local_ranks;
}

std::string text_of(const std::vector<VisibleGpu>& gpus) {
  const VisibleGpu& first = gpus.front();
  const bool same = std::all_of(gpus.begin(), gpus.end(), [&](const VisibleGpu& one) {
    return one.instance == nullptr && one.gpu->name == first.gpu->name && one.total_bytes() == first.total_bytes();
  });
  std::vector<std::string> words;
  if (gpus.size() == 1 || !same) {
    for (const VisibleGpu& one : gpus) words.push_back(one.text());
    return listed(words, "and");
  }
  for (const VisibleGpu& one : gpus) words.push_back(std::to_string(one.gpu->number));
  const std::string memory = first.total_bytes() > 0 ? fmt::format(", {} each", human_bytes(first.total_bytes())) : "";
  return fmt::format("GPUs {} ({}{})", listed(words, "and"), first.gpu->name, memory);
}

}  // namespace

bool chooses_gpus(const Config& config) {
  return !config.gpu_ids.empty() && config.gpu_ids != std::vector<std::string>{"all"};
}

bool asks_for_gpus(const Config& config) {
  return !config.use_cpu && config.distributed_type != DistributedType::kMultiCpu &&
         config.distributed_type != DistributedType::kDataParallel;
}

bool trains_on_gpus(const Config& config) {
  return asks_for_gpus(config) && (config.distributed_type != DistributedType::kNo || lacking_for_gpus(config).empty());
}

std::string why_on_cpu(const Config& config) {
  if (!asks_for_gpus(config) || trains_on_gpus(config)) return "";
  return "use_cpu is false, but " + lacking_for_gpus(config);
}

int64_t ranks_per_machine(const Config& config) {
  return std::max<int64_t>(1, config.num_processes / std::max<int64_t>(1, config.num_machines));
}

int64_t gpus_needed(const Config& config) {
  return config.training.ddp_backend == DdpBackend::kGloo ? 1 : ranks_per_machine(config);
}

std::string lacking_for_gpus(const Config& config) {
  const int64_t needed = gpus_needed(config);
  return why_no_gpus(needed > 1 && has_own_gpus() ? 1 : needed);
}

std::string visible_devices(const Config& config) {
  return trains_on_gpus(config) && chooses_gpus(config) ? fmt::format("{}", fmt::join(config.gpu_ids, ",")) : "";
}

std::string unusable_gpu_ids(const Config& config, const GpuMachine& machine,
                             const std::optional<std::string>& visible) {
  if (!chooses_gpus(config)) return "";
  const std::vector<VisibleGpu> allowed = visible_gpus(machine, visible);
  for (const std::string& id : config.gpu_ids) {
    const std::vector<VisibleGpu> chosen = visible_gpus(machine, id);
    if (chosen.empty())
      return fmt::format("but this machine has no GPU {}: it has {}{}", id, machine.gpus.size(),
                         parse_int(id) ? ", numbered from 0" : " (nvidia-smi -L lists their names)");
    if (std::find(allowed.begin(), allowed.end(), chosen.front()) == allowed.end())
      return fmt::format(
          "but CUDA_VISIBLE_DEVICES is '{}', which excludes GPU {}: make them agree, or leave gpu_ids out",
          visible.value_or(""), id);
  }
  return "";
}

std::vector<VisibleGpu> gpus_of_ranks(const Config& config, const GpuMachine& machine,
                                      const std::optional<std::string>& visible) {
  std::vector<VisibleGpu> gpus =
      visible_gpus(machine, chooses_gpus(config) ? fmt::format("{}", fmt::join(config.gpu_ids, ",")) : visible);
  if (std::ssize(gpus) > ranks_per_machine(config)) gpus.resize(static_cast<size_t>(ranks_per_machine(config)));
  return gpus;
}

std::string gpus_text(const Config& config, const GpuMachine& machine, const std::vector<VisibleGpu>& gpus) {
  if (gpus.empty()) return "";
  const int64_t ranks = ranks_per_machine(config);
  const std::string driver = machine.driver.empty() ? "" : ", driver " + machine.driver;
  if (ranks == 1) return fmt::format("training on {}{}", text_of(gpus), driver);
  const char* const how = std::ssize(gpus) < ranks ? "share" : "train, in their order, on";
  return fmt::format("the {} ranks of this machine {} {}{}", ranks, how, text_of(gpus), driver);
}

}  // namespace trainer::config
