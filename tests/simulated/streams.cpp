// The device's streams and events, as libtorch sees them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tests/simulated/device.h"
#include "tests/simulated/graphs.h"
#include "tests/simulated/pinned.h"

namespace trainer::simulated {
namespace {

thread_local c10::DeviceIndex device_now = 0;
thread_local c10::StreamId stream_now[kMostDevices] = {};

/// A stream's number on the timeline. Its id in libtorch is 0 for a device's default stream, else the number itself.
StreamNumber number_of(const c10::Stream& stream) {
  static const int first = [] {
    for (int i = 0; i < device_count(); ++i) timeline().add_stream(fmt::format("default of device {}", i));
    return 0;
  }();
  return stream.id() == 0 ? first + stream.device_index() : static_cast<StreamNumber>(stream.id());
}

struct Event {
  Clock clock;
  std::chrono::steady_clock::time_point time;  // operators run as the host launches them
  bool recorded = false;                       // by a stream that is recorded
  bool queried = false;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, device_now}; }
  void setDevice(c10::Device device) const override { device_now = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { device_now = device.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }

  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, stream_now[device.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    number_of(getDefaultStream(device));  // default streams have the first numbers
    return c10::Stream(c10::Stream::UNSAFE, device, timeline().add_stream("made by libtorch"));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    stream_now[stream.device_index()] = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream&) const override { return false; }
  void synchronizeStream(const c10::Stream& stream) const override { host_waits_for(number_of(stream)); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    host_waits_for(number_of(getStream(c10::Device(kType, index))));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = {timeline().clock_of(number_of(stream)), std::chrono::steady_clock::now(),
                                    is_recorded(number_of(stream))};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const Event& of = *static_cast<Event*>(event);
    if (of.recorded != is_recorded(number_of(stream)))
      refuse_while_recording("a stream that waits for an event of another one");
    timeline().wait(number_of(stream), of.clock);
  }
  /// As late as a device may be: the first time, what the host hasn't waited for isn't done. Once it is, the host knows.
  bool queryEvent(void* event) const override {
    Event& of = *static_cast<Event*>(event);
    if (!std::exchange(of.queried, true) && !timeline().host_knows(of.clock)) return false;
    timeline().wait(kHost, of.clock);
    return true;
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    const auto time = [](void* event) { return static_cast<Event*>(event)->time; };
    return std::chrono::duration<double, std::milli>(time(to) - time(from)).count();
  }
  void synchronizeEvent(void* event) const override {
    note_synchronization();
    timeline().wait(kHost, static_cast<Event*>(event)->clock);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    timeline().used_on(reinterpret_cast<uintptr_t>(data.get()), number_of(stream));
  }

 private:
  static void host_waits_for(StreamNumber stream) {
    note_synchronization();
    timeline().synchronize(stream);
    timeline().throw_errors();
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

Timeline& timeline() {
  static auto* const one = [] {
    std::atexit([] {  // after the last launch
      const std::string noted = timeline().errors();
      if (noted.empty()) return;
      static_cast<void>(std::fputs(noted.c_str(), stderr));
      std::_Exit(EXIT_FAILURE);
    });
    return new Timeline(&protect_pinned);  // never destroyed: tensors in static variables are freed after it would be
  }();
  return *one;
}

c10::Device current_device() {
  return {kType, device_now};
}

void use(int index) {
  device_now = static_cast<c10::DeviceIndex>(index);
}

StreamNumber current_stream() {
  const Guard guard;
  return number_of(guard.getStream(current_device()));
}

StreamNumber default_stream() {
  const Guard guard;
  return number_of(guard.getDefaultStream(current_device()));
}

StreamNumber communication_stream(const std::string& name) {
  const Guard guard;
  number_of(guard.getDefaultStream(current_device()));
  return timeline().add_stream(name);
}

}  // namespace trainer::simulated
