// The device that the tests of the device path run on; a program links one of the files that define it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "models/nn/kernel_table.h"

namespace trainer::testing {

/// simulated_device.cpp: the one of Note [Simulated accelerator], for machines without another one. The addresses of
/// its tensors are invalid, so code that accesses them as if they were on the CPU crashes. emulated_device.cpp: the
/// CPU, on which the layers run the emulated CUDA kernels. gpu_device.cpp: the first GPU.
c10::Device device();

/// The kernels of our own that the layers run there. (Not defined for the simulated device.)
const nn::DeviceKernels& kernels_of_device();

/// Why there is no device; "" if there is one.
std::string why_no_device();

/// What the host asked of the device so far; a GPU doesn't count it.
struct Asked {
  int64_t launches = 0, synchronizations = 0, copies = 0;
};
std::optional<Asked> asked();

/// The peak number of bytes in its tensors since forget_peak().
int64_t peak_bytes();
void forget_peak();

}  // namespace trainer::testing
