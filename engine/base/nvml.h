// Reads GPUs through NVIDIA's management library.
#pragma once

#include <filesystem>
#include <string>

#include "engine/base/gpus.h"

namespace trainer::nvml {

/// Adds what the library at `path` knows: the driver, and the GPUs in its order, which is that of PCI bus ids. False if
/// there is no such library or it doesn't work; `machine.trouble` then holds its reason. Processes are named by
/// /proc under `root`.
bool read(const std::string& path, const std::filesystem::path& root, GpuMachine& machine);

}  // namespace trainer::nvml
