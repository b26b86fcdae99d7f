// The simulated device: streams, events, memory with a limit, and counters. See Note [Simulated accelerator].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "tests/simulated/timeline.h"

namespace trainer::simulated {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr int kMostDevices = 16;

/// What the host asked of the device, in this process.
struct Counters {
  int64_t launches = 0;          // operators
  int64_t synchronizations = 0;  // times the host waited for the device
  int64_t copies = 0;            // between host and device, in either direction
};
Counters counters();
/// The launches of each operator and kernel.
std::map<std::string, int64_t> launches_by_name();
/// Errors: while a stream is recorded.
void note_synchronization();
/// An operator on the current stream. Undefined tensors and those of the host don't count.
void note_launch(const std::string& what, const std::vector<at::Tensor>& reads, const std::vector<at::Tensor>& writes);
/// Likewise a kernel of our own.
void note_kernel(const std::string& what, const std::vector<Range>& reads, const std::vector<Range>& writes);

/// Likewise, and runs it: `run` refers to memory by address only (on_cpu()), because a graph may run it again.
void launch(const std::string& what, const std::vector<at::Tensor>& reads, const std::vector<at::Tensor>& writes,
            const std::function<void()>& run);
void launch_kernel(const std::string& what, const std::vector<Range>& reads, const std::vector<Range>& writes,
                   const std::function<void()>& run);
/// During its lifetime, the calling thread's operators are part of another one, and aren't noted.
class WithinOperator {
 public:
  WithinOperator();
  ~WithinOperator();
  WithinOperator(const WithinOperator&) = delete;
  WithinOperator& operator=(const WithinOperator&) = delete;
  bool outermost() const { return !before_; }

 private:
  bool before_;
};

/// TRAINER_SIMULATED_DEVICES, or 4.
int device_count();
/// TRAINER_SIMULATED_BYTES, or 4 GiB, for each device. TRAINER_SIMULATED_LOST_BYTES of them cannot be allocated.
int64_t memory_limit();
/// By tensors.
int64_t held_bytes(int index);
/// Also by freed blocks that the allocator keeps for later tensors.
int64_t reserved_bytes(int index);
int64_t most_reserved_bytes(int index);
/// Of the host.
int64_t held_pinned_bytes();
int64_t peak_bytes(int index);
/// Of both.
void forget_peak(int index);
/// Makes it the calling thread's current device.
void use(int index);
/// libtorch's generator of that device.
const at::Generator& default_generator(c10::DeviceIndex index);
c10::Device current_device();

Timeline& timeline();
/// A stream for the communicator named `name`.
StreamNumber communication_stream(const std::string& name);
/// The calling thread's stream of its current device.
StreamNumber current_stream();
/// Of the calling thread's current device.
StreamNumber default_stream();
std::vector<Range> ranges_of(const std::vector<at::Tensor>& tensors);
/// The tensor's memory as a CPU tensor, which doesn't keep it.
at::Tensor on_cpu(const at::Tensor& tensor);
/// A tensor of the same memory, shape and device, which doesn't keep the memory.
at::Tensor alias_of(const at::Tensor& tensor);

}  // namespace trainer::simulated
