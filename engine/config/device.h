// Where a configuration trains.
#pragma once

#include <optional>
#include <string>

#include "engine/config/sections.h"

namespace trainer::config {

/// Whether ranks are meant to compute on GPUs. DATA_PARALLEL says by `devices` where.
bool asks_for_gpus(const Config& config);

/// Whether they do, on this machine: a single process trains on the CPU where GPUs are asked for and none is to be had.
bool trains_on_gpus(const Config& config);

/// What a machine lacks to train so, or "": what base/gpu_library.h tells, for as many ranks as a machine has. Under
/// Gloo ranks may share a GPU.
std::string lacking_for_gpus(const Config& config);

/// What CUDA_VISIBLE_DEVICES must be in the environment of the ranks: the GPUs that gpu_ids names. "": as it is.
std::string visible_devices(const Config& config);

/// Whether gpu_ids names some of a machine's GPUs.
bool chooses_gpus(const Config& config);

/// GPUs that the ranks of a machine need: under Gloo they may share one.
int64_t gpus_needed(const Config& config);

/// What a machine offers.
struct GpusOfMachine {
  int64_t installed = 0;               // as the driver counts them
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES, where it is set
};
GpusOfMachine gpus_of_machine();

/// What `machine` lacks of the GPUs that gpu_ids names: completes "gpu_ids is 0,1, …"; "" when it has them all.
std::string unusable_gpu_ids(const Config& config, const GpusOfMachine& machine);

}  // namespace trainer::config
