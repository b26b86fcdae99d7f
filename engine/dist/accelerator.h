// Accelerators: devices other than the CPU, provided by a library that is loaded only when a run asks for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "engine/dist/graph.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace trainer::nn {
struct DeviceKernels;
}

namespace trainer::dist {

struct DeviceFacts {
  std::string name;
  int64_t free_bytes = 0, total_bytes = 0;
};

/// Whether cuDNN's attention is the fastest of libtorch's on NVIDIA GPUs of that compute capability, as libtorch itself
/// chooses: H100 and B200.
inline bool prefers_cudnn_attention(int capability_major) {
  return capability_major == 9 || capability_major == 10;
}

/// The interface of such a library. libtrainer_cuda.so (engine/dist/cuda) implements it for NVIDIA's GPUs; docs/gpu.md
/// describes how to implement it for other devices. Errors: std::exception, with the vendor's message.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual c10::DeviceType type() const = 0;
  /// The number of devices this process may use, and why there is none.
  virtual int count() const = 0;
  virtual std::string why_none() const = 0;
  virtual DeviceFacts facts(int index) const = 0;
  /// Makes it the calling thread's current device.
  virtual void use(int index) const = 0;
  /// The peak number of bytes in its tensors since the last forget_peak().
  virtual int64_t peak_bytes(int index) const = 0;
  virtual void forget_peak(int index) const = 0;
  /// Kernels for the layers (models/nn/kernel_table.h); null: the layers run as reference layers.
  virtual const nn::DeviceKernels* kernels() const { return nullptr; }
  /// Whether libtorch's flash and memory-efficient attention run on the device (models/nn/device/attention_choice.h).
  virtual bool has_flash_attention(int) const { return false; }
  virtual bool has_efficient_attention(int) const { return false; }
  /// Whether cuDNN's is faster there.
  virtual bool has_cudnn_attention(int) const { return false; }
  /// Whether libtorch's fused norms do (models/nn/device/norms.h).
  virtual bool has_fused_norms() const { return false; }
  /// A recorder of graphs on the device; null: it has none.
  virtual std::unique_ptr<GraphRecorder> graph_recorder(int) const { return nullptr; }
  /// Collective. c10d's collectives among devices; `index` is this rank's device. Ranks rendezvous through `store`.
  virtual c10::intrusive_ptr<c10d::Backend> collectives(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                        int size, int index, std::chrono::seconds timeout) const = 0;
};

/// Null when this build has no such library next to the program.
const Accelerator* find_accelerator();

/// The device of a rank: number `local_rank`; with `shared`, ranks share devices when there are fewer devices than
/// ranks. Makes it the calling thread's current device.
/// Errors: MachineError that names what is missing: the library, the driver, a device.
c10::Device take_device(int local_rank, int local_ranks, bool shared);

/// The peak number of bytes in this process's tensors on that device.
int64_t peak_tensor_bytes(c10::Device device);

}  // namespace trainer::dist
