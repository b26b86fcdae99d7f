// A program that links this file runs layers on the CPU with the emulated CUDA kernels, if TRAINER_EMULATED_KERNELS=1.
// So tests of the layers test the kernels too.
#include <cstdlib>

#include "models/nn/device/device_kernels.h"
#include "tests/support/emulated_kernels.h"

namespace trainer::testing {
namespace {

[[maybe_unused]] const bool kRegistered = [] {
  static const nn::DeviceKernels kernels = emulated_kernels();
  if (std::getenv("TRAINER_EMULATED_KERNELS") != nullptr) nn::use_device_kernels(c10::DeviceType::CPU, &kernels);
  return true;
}();

}  // namespace
}  // namespace trainer::testing
