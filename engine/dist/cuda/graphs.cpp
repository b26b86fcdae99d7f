// Part of libtrainer_cuda.so: CUDA graphs by libtorch's wrapper, whose allocator and generator know of recordings.
#include "engine/dist/cuda/graphs.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

namespace trainer::dist::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

class CudaGraph : public Graph {
 public:
  void replay() override { graph.replay(); }
  at::cuda::CUDAGraph graph;
};

/// What at::cuda::CUDAGraph leaves behind when the end of a recording fails, because an operator has broken it:
/// the allocator would give out the pool's memory, and the generator's draws would come from the graph. Seeds are set
/// before each use (Note [Attention on devices]), so a new generator's state is as good.
void forget_recording(c10::DeviceIndex device, c10::MempoolId_t pool) {
  static_cast<void>(cudaGetLastError());  // clears the error, which would be reported again
  try {
    allocator::endAllocateToPool(device, pool);
    allocator::releasePool(device, pool);
  } catch (const std::exception&) {
    // It had ended.
  }
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.graphsafe_set_state(at::make_generator<at::CUDAGeneratorImpl>(device));
}

class CudaGraphRecorder : public GraphRecorder {
 public:
  std::unique_ptr<Graph> record(const std::function<void()>& work) override {
    auto made = std::make_unique<CudaGraph>();
    const c10::DeviceIndex device = c10::cuda::current_device();
    c10::cuda::device_synchronize();
    allocator::emptyCache();  // while it records, the allocator can't return its free blocks for the pool
    // Other threads, which read batches or watch collectives, may call what a recording thread may not.
    made->graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      made->graph.capture_end();
    } catch (...) {
      forget_recording(device, pool_);
      if (!failure) failure = std::current_exception();
    }
    if (failure) std::rethrow_exception(failure);
    return made;
  }

 private:
  // Of all graphs: nothing that one of them allocates is used after it (GraphRecorder).
  c10::MempoolId_t pool_ = at::cuda::graph_pool_handle();
};

}  // namespace

std::unique_ptr<GraphRecorder> graph_recorder() {
  return std::make_unique<CudaGraphRecorder>();
}

}  // namespace trainer::dist::cuda
