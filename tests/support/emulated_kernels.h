#pragma once

#include "models/nn/kernel_table.h"

namespace trainer::testing {

/// The CUDA kernels of models/nn/cuda, run on the CPU (cuda_emulation.h).
nn::DeviceKernels emulated_kernels();

}  // namespace trainer::testing
