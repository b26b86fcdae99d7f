// The device that tests/parallel/device_test.cpp runs on; a program links one of the two files that define it.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace trainer::testing {

/// simulated_device.cpp: the one of Note [Simulated accelerator], for machines without another one. The addresses of its
/// tensors are invalid, so code that accesses them as if they were on the CPU crashes.
/// gpu_device.cpp: the first GPU.
c10::Device device();

/// Why there is no device; "" if there is one.
std::string why_no_device();

}  // namespace trainer::testing
