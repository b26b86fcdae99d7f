// The device that tests/parallel/device_test.cpp runs on; a program links one of the two files that say which.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace trainer::testing {

/// other_device.cpp: a device for machines that have none: libtorch's spare one, whose tensors' addresses lead nowhere,
/// so that code which reads or writes them as if they were on the CPU crashes. Every operator runs on copies.
/// gpu_device.cpp: the first GPU.
c10::Device device();

/// Why there is none; "" when there is one.
std::string why_no_device();

}  // namespace trainer::testing
