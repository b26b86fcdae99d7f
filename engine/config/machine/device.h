// The device that a configuration trains on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/visible_gpus.h"
#include "engine/config/sections.h"

namespace trainer::config {

/// Whether ranks are meant to compute on GPUs. DATA_PARALLEL uses `devices` instead.
bool asks_for_gpus(const Config& config);

/// Whether they do so on this machine: a single process falls back to the CPU if no GPU is available.
bool trains_on_gpus(const Config& config);

/// What this machine lacks for that, or "": the answer of base/gpu_library.h for the ranks of one machine. Under Gloo
/// ranks can share a GPU. If srun or mpirun gave each rank GPUs of its own, it is enough for this process to see one.
std::string lacking_for_gpus(const Config& config);

/// CUDA_VISIBLE_DEVICES for the environment of the ranks: the GPUs in gpu_ids. "": unchanged.
std::string visible_devices(const Config& config);

/// Whether gpu_ids selects some of a machine's GPUs.
bool chooses_gpus(const Config& config);

/// GPUs that the ranks of a machine need: under Gloo they can share one.
int64_t gpus_needed(const Config& config);

/// The ranks of each machine.
int64_t ranks_per_machine(const Config& config);

/// Which GPUs in gpu_ids can't be used on a machine where CUDA_VISIBLE_DEVICES is `visible`, to complete "gpu_ids is
/// 0,1, …"; "" if all can.
std::string unusable_gpu_ids(const Config& config, const GpuMachine& machine,
                             const std::optional<std::string>& visible);

/// The GPUs that this machine's ranks use, in the order of the ranks: those in gpu_ids, else the visible ones. There are
/// fewer than ranks only under Gloo, and if the machine has too few.
std::vector<VisibleGpu> gpus_of_ranks(const Config& config, const GpuMachine& machine,
                                      const std::optional<std::string>& visible);

/// One line about them: "training on GPU 0 (NVIDIA H100 80GB HBM3, 80 GiB), driver 580.65.06".
std::string gpus_text(const Config& config, const GpuMachine& machine, const std::vector<VisibleGpu>& gpus);

/// Why a configuration for GPUs trains on the CPU: "use_cpu is false, but …"; "" if it doesn't.
std::string why_on_cpu(const Config& config);

}  // namespace trainer::config
