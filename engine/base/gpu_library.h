#pragma once

#include <string>

namespace trainer {

/// Where the library for GPUs is, when this build has one: beside the program.
std::string gpu_library_path();

/// Why training on `ranks` GPUs of this machine is not possible, as far as can be told without loading that library:
/// "this build has no GPU support". Completes "…, and <reason>"; "" when nothing speaks against it.
std::string why_no_gpus(int64_t ranks);

/// How many GPUs the driver shows.
int64_t installed_gpus();

/// How many of them CUDA may use: those of CUDA_VISIBLE_DEVICES, where that is set.
int64_t visible_gpus();

}  // namespace trainer
