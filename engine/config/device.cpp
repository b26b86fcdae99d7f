#include "engine/config/device.h"

#include <algorithm>

#include "engine/base/gpu_library.h"

namespace trainer::config {

bool asks_for_gpus(const Config& config) {
  return !config.use_cpu && config.distributed_type != DistributedType::kMultiCpu &&
         config.distributed_type != DistributedType::kDataParallel;
}

bool trains_on_gpus(const Config& config) {
  return asks_for_gpus(config) && (config.distributed_type != DistributedType::kNo || lacking_for_gpus(config).empty());
}

std::string lacking_for_gpus(const Config& config) {
  const bool shared = config.training.ddp_backend == DdpBackend::kGloo;
  const int64_t ranks = std::max<int64_t>(1, config.num_processes / std::max<int64_t>(1, config.num_machines));
  return why_no_gpus(shared ? 1 : ranks);
}

}  // namespace trainer::config
