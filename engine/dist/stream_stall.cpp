#include "engine/dist/stream_stall.h"

#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace trainer::dist {
namespace {

using EventPtr = std::unique_ptr<c10::Event>;

struct Stalls {
  std::mutex mutex;
  std::deque<std::pair<EventPtr, EventPtr>> running;  // the device may not have passed the second of them
  double seconds = 0;

  void add_ended() {
    for (; !running.empty() && running.front().second->query(); running.pop_front())
      seconds += running.front().first->elapsedTime(*running.front().second) / 1000;
  }
};
Stalls& stalls = *new Stalls;  // never destroyed: the device's library may be gone by then

constexpr size_t kMany = 256;  // stalls whose time nobody has asked for yet, as in an evaluation

EventPtr event_now(at::Device device) {
  auto event = std::make_unique<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // with a time
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

}  // namespace

StreamStall::StreamStall(at::Device device) : device_(device), begin_(device.is_cpu() ? nullptr : event_now(device)) {}

StreamStall::~StreamStall() {
  if (!begin_) return;
  try {
    auto end = event_now(device_);
    const std::lock_guard lock(stalls.mutex);
    stalls.running.emplace_back(std::move(begin_), std::move(end));
    if (stalls.running.size() > kMany) stalls.add_ended();
  } catch (const std::exception&) {  // the device has failed, which whatever uses it next reports
  }
}

double seconds_stalled() {
  const std::lock_guard lock(stalls.mutex);
  stalls.add_ended();
  return stalls.seconds;
}

}  // namespace trainer::dist
