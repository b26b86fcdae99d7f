#pragma once

#include <string>

namespace trainer {

/// The path of a library for another vendor's devices (engine/dist/accelerator.h), to be used instead of NVIDIA's.
constexpr const char* kAcceleratorVariable = "TRAINER_ACCELERATOR_LIBRARY";

/// The path of the GPU library, next to the program; it exists if this build supports GPUs.
std::string gpu_library_path();

/// Why training on `ranks` GPUs of this machine is not possible, as far as is known without loading that library:
/// "this build has no GPU support". Completes "…, and <reason>"; "" when it seems possible.
std::string why_no_gpus(int64_t ranks);

/// The number of GPUs that the driver shows.
int64_t installed_gpus();

/// The number of them that CUDA may use: those in CUDA_VISIBLE_DEVICES, if it is set.
int64_t visible_gpus();

}  // namespace trainer
