#pragma once

#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace trainer::dist {

// Note [Waits on streams]
// A collective among devices doesn't block the host: wait() makes the current stream wait, and the host waits for all
// of it when it reads the device (Note [One read]). So events with times stand around each wait in the stream itself.
// An event costs the host a microsecond or two, and the times are read when the device has passed it.

/// From construction to destruction, the current stream of a device waits for other ranks. On the CPU: nothing.
class StreamStall {
 public:
  explicit StreamStall(at::Device device);
  ~StreamStall();
  StreamStall(const StreamStall&) = delete;
  StreamStall& operator=(const StreamStall&) = delete;

 private:
  at::Device device_;
  std::unique_ptr<c10::Event> begin_;
};

/// Seconds of all stalls that are over, in this process.
double seconds_stalled();

}  // namespace trainer::dist
