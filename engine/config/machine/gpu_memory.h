// The memory of a GPU, for planning runs on GPUs that this machine doesn't have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer::config {

struct GpuMemory {
  std::string name;   // "H100 80GB", or "a GPU with 80 GiB"
  int64_t bytes = 0;  // total
};

/// Parses a number of GiB ("80", "23.6", "80GB"), or the name of a card in gpu_cards.h.
/// Errors: ConfigError that lists the known cards.
GpuMemory gpu_memory_named(const std::string& text);

/// 80 for "80", "80gb", "80g" and "80gib"; nullopt for other words.
std::optional<double> gigabytes(std::string text);

}  // namespace trainer::config
