// Kernels for the layers on the simulated device.
#pragma once

#include "models/nn/kernel_table.h"

namespace trainer::simulated {

/// The CUDA kernels, emulated (tests/support/emulated_kernels.h), on the device's memory: each call is a launch on the
/// calling thread's stream.
const nn::DeviceKernels& kernels();

}  // namespace trainer::simulated
