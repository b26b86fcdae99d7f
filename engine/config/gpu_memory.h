// How much memory GPUs have, for plans of runs whose GPUs aren't here.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::config {

struct GpuMemory {
  std::string name;   // "H100 80GB", or "a GPU with 80 GiB"
  int64_t bytes = 0;  // in all
};

/// What a user calls it: a number of GiB ("80", "23.6", "80GB"), or a card's name as the maker, the driver or people
/// write it ("H100", "NVIDIA A100-SXM4-80GB", "rtx 4090").
/// Errors: ConfigError that lists the known cards.
GpuMemory gpu_memory_named(const std::string& text);

}  // namespace trainer::config
