// What a .cu file of this folder needs of CUDA. The files are written in a subset of CUDA C++ that
// tests/support/cuda_emulation.h runs on the CPU, so that every build's tests run them: no shared memory but
// TRAINER_SHARED, no launch but launch(), warp intrinsics only for whole warps.
#pragma once

#if !defined(TRAINER_CUDA_EMULATION)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#define TRAINER_SHARED(type, name, count) __shared__ type name[count]

namespace trainer::nn::cuda {

/// Enqueues the kernel on a stream. Errors: std::runtime_error.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, void* stream, Arguments... arguments) {
  kernel<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string("a kernel's launch failed: ") + cudaGetErrorString(error));
}

}  // namespace trainer::nn::cuda
#endif
