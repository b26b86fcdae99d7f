#include "tests/support/emulated_kernels.h"

#include "tests/support/cuda_emulation.h"

#include "models/nn/cuda/activation.cu"
#include "models/nn/cuda/cross_entropy.cu"
#include "models/nn/cuda/dropout.cu"
#include "models/nn/cuda/four_bit.cu"
#include "models/nn/cuda/noise.cu"
#include "models/nn/cuda/rms_norm.cu"
#include "models/nn/cuda/rotation.cu"

namespace trainer::testing {

nn::DeviceKernels emulated_kernels() {
  return nn::cuda::kernels([](int) -> void* { return nullptr; });
}

}  // namespace trainer::testing
