// The memory of GPUs by name, for planning runs on GPUs that this machine doesn't have.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::config {

struct GpuMemory {
  std::string name;   // "H100 80GB", or "a GPU with 80 GiB"
  int64_t bytes = 0;  // total
};

/// Parses a number of GiB ("80", "23.6", "80GB"), or a card's name as the vendor, the driver or people write it
/// ("H100", "NVIDIA A100-SXM4-80GB", "rtx 4090").
/// Errors: ConfigError that lists the known cards.
GpuMemory gpu_memory_named(const std::string& text);

}  // namespace trainer::config
