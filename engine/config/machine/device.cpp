#include "engine/config/machine/device.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/ranges.h>

#include "engine/base/gpu_library.h"
#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

/// Whether `id` is in `visible`, a value of CUDA_VISIBLE_DEVICES.
bool names(const std::string& visible, const std::string& id) {
  const std::vector<std::string> all = split(visible, ',');
  return std::find(all.begin(), all.end(), id) != all.end();
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

int64_t gpus_needed(const Config& config) {
  if (config.training.ddp_backend == DdpBackend::kGloo) return 1;
  return std::max<int64_t>(1, config.num_processes / std::max<int64_t>(1, config.num_machines));
}

std::string lacking_for_gpus(const Config& config) {
  return why_no_gpus(gpus_needed(config));
}

std::string visible_devices(const Config& config) {
  return trains_on_gpus(config) && chooses_gpus(config) ? fmt::format("{}", fmt::join(config.gpu_ids, ",")) : "";
}

GpusOfMachine gpus_of_machine() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return {installed_gpus(), visible == nullptr ? std::nullopt : std::optional<std::string>(visible)};
}

std::string unusable_gpu_ids(const Config& config, const GpusOfMachine& machine) {
  if (!chooses_gpus(config)) return "";
  for (const std::string& id : config.gpu_ids) {
    const std::optional<int64_t> number = parse_int(id);
    if (number && *number >= machine.installed)
      return fmt::format("but this machine has no GPU {}: it has {}, numbered from 0", id, machine.installed);
    if (machine.visible && !names(*machine.visible, id))
      return fmt::format(
          "but CUDA_VISIBLE_DEVICES is '{}', which excludes GPU {}: make them agree, or leave gpu_ids out",
          *machine.visible, id);
  }
  return "";
}

}  // namespace trainer::config
