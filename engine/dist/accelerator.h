// Devices that are not the CPU, behind a library of their own that is loaded only when a run asks for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace trainer::dist {

struct DeviceFacts {
  std::string name;
  int64_t free_bytes = 0, total_bytes = 0;
};

/// What such a library offers. libtrainer_cuda.so (engine/dist/cuda) is the one for NVIDIA's GPUs; docs/gpu.md tells
/// what one for other devices must do. Errors: std::exception, with its maker's words.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual c10::DeviceType type() const = 0;
  /// How many devices this process may use, and, when there is none, why.
  virtual int count() const = 0;
  virtual std::string why_none() const = 0;
  virtual DeviceFacts facts(int index) const = 0;
  /// From now on this thread works on that one.
  virtual void use(int index) const = 0;
  /// The most bytes that its tensors have held since the last forget_peak().
  virtual int64_t peak_bytes(int index) const = 0;
  virtual void forget_peak(int index) const = 0;
  /// Collective. c10d's collectives among devices, this rank's being `index`. Ranks meet through `store`.
  virtual c10::intrusive_ptr<c10d::Backend> collectives(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                        int size, int index, std::chrono::seconds timeout) const = 0;
};

/// Null when this build has no such library, which then isn't beside the program.
const Accelerator* find_accelerator();

/// The device of a rank: number `local_rank`, or, where `shared`, one that it shares with others when there are fewer
/// devices than ranks. The calling thread works on it from now on.
/// Errors: MachineError that names what is missing: the library, the driver, a device.
c10::Device take_device(int local_rank, int local_ranks, bool shared);

/// The most bytes that this process's tensors have held there.
int64_t peak_tensor_bytes(c10::Device device);

}  // namespace trainer::dist
