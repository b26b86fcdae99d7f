// What is wrong with GPUs that a run is about to use, or worth knowing about them.
#pragma once

#include <string>
#include <vector>

#include "engine/base/visible_gpus.h"

namespace trainer {

/// The CUDA of this build's libraries, and what it needs (CUDA Toolkit release notes, "CUDA Driver"; "Deprecated
/// Architectures": CUDA 13 has no code for GPUs before Turing).
constexpr int kCuda = 13000;
constexpr int kLeastDriver = 580;
constexpr int kLeastCapability = 75;

/// "13.0" for 13000.
std::string cuda_text(int version);

/// Why no rank can train on them: a driver that is broken or too old, a GPU that is too old or full. The text for an
/// error, with both values and what to do; "" if nothing is known to be wrong.
std::string gpu_fault(const GpuMachine& machine, const std::vector<VisibleGpu>& used);

/// What a run should be warned about: a driver that looks too old where only its kernel module can be asked, different
/// GPUs, GPUs that other processes use and, with `bf16`, GPUs without instructions for it.
std::vector<std::string> gpu_warnings(const GpuMachine& machine, const std::vector<VisibleGpu>& used, bool bf16);

/// "NVIDIA A100 (40 GiB) and NVIDIA H100 (80 GiB)": the kinds among them, in the order of their names.
std::string kinds_text(const std::vector<VisibleGpu>& gpus);

/// Who uses the memory of a GPU: "process 4711 (python, 70 GiB)"; "" if unknown.
std::string users_of(const Gpu& gpu);

}  // namespace trainer
