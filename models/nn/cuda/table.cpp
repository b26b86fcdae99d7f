// Part of libtrainer_cuda.so.
#include <c10/cuda/CUDAStream.h>

#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {

/// Kernels that run in order with libtorch's operators.
const DeviceKernels& kernels_on_libtorchs_streams();

const DeviceKernels& kernels_on_libtorchs_streams() {
  static const DeviceKernels table = kernels([](int index) {
    return static_cast<void*>(c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index)).stream());
  });
  return table;
}

}  // namespace trainer::nn::cuda
