// The device that a configuration trains on.
#pragma once

#include <optional>
#include <string>

#include "engine/config/sections.h"

namespace trainer::config {

/// Whether ranks are meant to compute on GPUs. DATA_PARALLEL uses `devices` instead.
bool asks_for_gpus(const Config& config);

/// Whether they do so on this machine: a single process falls back to the CPU if no GPU is available.
bool trains_on_gpus(const Config& config);

/// What this machine lacks for that, or "": the answer of base/gpu_library.h for the ranks of one machine. Under Gloo
/// ranks can share a GPU.
std::string lacking_for_gpus(const Config& config);

/// CUDA_VISIBLE_DEVICES for the environment of the ranks: the GPUs in gpu_ids. "": unchanged.
std::string visible_devices(const Config& config);

/// Whether gpu_ids selects some of a machine's GPUs.
bool chooses_gpus(const Config& config);

/// GPUs that the ranks of a machine need: under Gloo they can share one.
int64_t gpus_needed(const Config& config);

/// The GPUs of a machine.
struct GpusOfMachine {
  int64_t installed = 0;               // as the driver counts them
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES, where it is set
};
GpusOfMachine gpus_of_machine();

/// Which GPUs in gpu_ids `machine` lacks, to complete "gpu_ids is 0,1, …"; "" if it has them all.
std::string unusable_gpu_ids(const Config& config, const GpusOfMachine& machine);

}  // namespace trainer::config
