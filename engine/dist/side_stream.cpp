#include "engine/dist/side_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace trainer::dist {

void Moment::order_current_stream() const {
  if (!event_) return;
  const c10::impl::VirtualGuardImpl guard(event_->device_type());
  event_->block(guard.getStream(guard.getDevice()));
}

SideStream::SideStream(at::Device device) : device_(device) {
  if (device.is_cpu() || device.is_meta()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

Moment SideStream::now_on_current_stream() const {
  return Moment(c10::impl::VirtualGuardImpl(stream_->device_type()).getStream(stream_->device()));
}

}  // namespace trainer::dist
