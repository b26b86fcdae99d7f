#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

namespace trainer::dist {

/// A moment in a stream. Without an event: already over.
class Moment {
 public:
  Moment() = default;
  explicit Moment(const c10::Stream& stream) : event_(std::make_unique<c10::Event>(stream.device_type())) {
    event_->record(stream);
  }

  /// The operators that the current stream is given from now on start after it.
  void order_current_stream() const;
  /// The host waits for it.
  void wait() const {
    if (event_) event_->synchronize();
  }

 private:
  std::unique_ptr<c10::Event> event_;
};

/// A stream of a device besides the one that computes. The CPU and the meta device have none: everything runs at once.
class SideStream {
 public:
  explicit SideStream(at::Device device);
  at::Device device() const { return device_; }

  /// Runs `work`, whose operators start after those that the current stream has been given so far, and may overlap with
  /// those that it is given from now on. Returns the end of `work`.
  template <class F>
  Moment run(const F& work) {
    if (!stream_) {
      work();
      return {};
    }
    const Moment before = now_on_current_stream();
    const c10::StreamGuard guard(*stream_);
    before.order_current_stream();
    work();
    return Moment(*stream_);
  }

 private:
  Moment now_on_current_stream() const;

  at::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace trainer::dist
