// Where ranks compute.
#pragma once

#include "engine/config/sections.h"

namespace trainer::config {

/// Whether ranks would be on GPUs, which this build cannot use.
inline bool trains_on_gpus(const Config& config) {
  switch (config.distributed_type) {
    case DistributedType::kNo:
    case DistributedType::kMultiCpu:
    case DistributedType::kDataParallel:  // `devices` says where
      return false;
    default:
      return !config.use_cpu;
  }
}

}  // namespace trainer::config
