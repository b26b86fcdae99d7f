#include "models/nn/device/device_kernels.h"
#include "tests/support/device.h"
#include "tests/support/emulated_kernels.h"

namespace trainer::testing {

const nn::DeviceKernels& kernels_of_device() {
  static const nn::DeviceKernels kernels = emulated_kernels();
  return kernels;
}

c10::Device device() {
  nn::use_device_kernels(c10::DeviceType::CPU, &kernels_of_device());
  return c10::DeviceType::CPU;
}

std::string why_no_device() {
  return "";
}

}  // namespace trainer::testing
