// The hardware of this machine, for the wizard's defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/gpus.h"

namespace trainer::config {

struct Machine {
  int64_t cores = 1;              // physical cores that this program can use
  int64_t memory_bytes = 0;       // of the machine or the container; 0: unknown
  std::vector<std::string> gpus;  // the names of those that CUDA may use: Note [Finding GPUs]
  int64_t gpu_bytes = 0;          // of the smallest of them; 0: unknown

  /// "2 cores, 23.5 GiB of memory, no GPU"
  std::string text() const;
};

/// Reads /proc and /sys below `root`.
Machine read_machine(const std::filesystem::path& root = "/", const GpuMachine& gpus = gpus_here());

}  // namespace trainer::config
