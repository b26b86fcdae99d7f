#pragma once

#include <string>

#include "engine/base/visible_gpus.h"

namespace trainer {

/// The path of a library for another vendor's devices (engine/dist/accelerator.h), to be used instead of NVIDIA's.
constexpr const char* kAcceleratorVariable = "TRAINER_ACCELERATOR_LIBRARY";

bool has_other_accelerator();

/// The path of the GPU library, next to the program; it exists if this build supports GPUs.
std::string gpu_library_path();

/// Why training on `ranks` GPUs of this machine is not possible, as far as is known without loading that library:
/// "this build has no GPU support". Completes "…, and <reason>"; "" when it seems possible.
std::string why_no_gpus(int64_t ranks);
/// Whether the reason is a driver that doesn't work: a fault of the machine (gpu_fault()), not of a configuration.
bool driver_fails();

/// The same about the GPUs of `machine`, of which CUDA_VISIBLE_DEVICES is `variable`.
std::string why_too_few_gpus(const GpuMachine& machine, const std::optional<std::string>& variable, int64_t ranks);

/// The number of GPUs that CUDA may use: Note [Finding GPUs].
int64_t count_visible_gpus();

}  // namespace trainer
