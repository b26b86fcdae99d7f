// libtrainer_cuda.so: implements engine/dist/accelerator.h for NVIDIA's GPUs. Loaded when a run asks for them; with the
// other files of this folder, the only code that includes CUDA's headers.
#define USE_C10D_NCCL

#include "engine/dist/accelerator.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "engine/dist/cuda/graphs.h"

namespace trainer::nn::cuda {
const DeviceKernels& kernels_on_libtorchs_streams();  // models/nn/cuda/table.cpp
}

namespace trainer::dist::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties;
}

class Gpus : public dist::Accelerator {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }

  int count() const override { return c10::cuda::device_count(); }

  std::string why_none() const override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    static_cast<void>(cudaGetLastError());  // clears the error, which is sticky
    return error == cudaSuccess ? "the driver shows none" : cudaGetErrorString(error);
  }

  dist::DeviceFacts facts(int index) const override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
    size_t free_bytes = 0, total_bytes = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    return {properties_of(index).name, static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
  }

  void use(int index) const override {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // before it, the allocator has no statistics
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  }

  int64_t peak_bytes(int index) const override {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return allocator::getDeviceStats(static_cast<c10::DeviceIndex>(index)).allocated_bytes[kAll].peak;
  }

  void forget_peak(int index) const override { allocator::resetPeakStats(static_cast<c10::DeviceIndex>(index)); }

  // Its kernels are compiled for Ampere and later.
  bool has_flash_attention(int index) const override { return properties_of(index).major >= 8; }
  bool has_efficient_attention(int) const override { return true; }
  bool has_cudnn_attention(int index) const override { return prefers_cudnn_attention(properties_of(index).major); }
  bool has_fused_norms() const override { return true; }

  const nn::DeviceKernels* kernels() const override { return &nn::cuda::kernels_on_libtorchs_streams(); }

  std::unique_ptr<GraphRecorder> graph_recorder(int) const override { return cuda::graph_recorder(); }

  c10::intrusive_ptr<c10d::Backend> collectives(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                int index, std::chrono::seconds timeout) const override {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
    nccl->setBoundDeviceId(at::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)));
    return nccl;
  }
};

}  // namespace
}  // namespace trainer::dist::cuda

extern "C" __attribute__((visibility("default"))) const trainer::dist::Accelerator* trainer_accelerator() {
  static const trainer::dist::cuda::Gpus gpus;
  return &gpus;
}
