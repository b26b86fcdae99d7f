#include "models/nn/device/layout_tensors.h"

#include <ATen/ops/empty.h>

namespace trainer::nn::device {
namespace {

/// Fills sample_index, token, span and place [rows each], then begin and length, then starts and lengths.
void fill(const Layout& layout, int64_t rows, int64_t* wide, int32_t* narrow) {
  const int64_t spans = layout.samples();
  for (int64_t s = 0; s < spans; ++s) {
    const Span span = layout.spans[s];
    for (int64_t i = 0; i < span.length && rows > 0; ++i) {
      const int64_t row = span.begin + i;
      wide[row] = layout.sample_index.empty() ? 0 : layout.sample_index[s];
      wide[rows + row] = layout.start(s) + i;
      wide[2 * rows + row] = s;
      wide[3 * rows + row] = i;
    }
    wide[4 * rows + s] = span.begin;
    wide[4 * rows + spans + s] = span.length;
    narrow[s] = static_cast<int32_t>(span.begin);
    narrow[spans + 1 + s] = static_cast<int32_t>(span.length);
  }
  narrow[spans] = static_cast<int32_t>(layout.tokens());
}

LayoutTensors made(const Layout& layout, at::Device device) {
  const int64_t rows = layout.has_gaps() ? 0 : layout.tokens(), spans = layout.samples();
  const int64_t wide = 4 * rows + 2 * spans, narrow = 2 * spans + 1;
  at::Tensor all = host_memory({wide + (narrow + 1) / 2}, at::kLong, device);
  if (!all.is_meta())
    fill(layout, rows, all.data_ptr<int64_t>(), reinterpret_cast<int32_t*>(all.data_ptr<int64_t>() + wide));
  all = sent(all, device);
  const auto part = [&](int64_t begin, int64_t count) { return all.narrow(0, begin, count); };
  const at::Tensor numbers = part(wide, (narrow + 1) / 2).view(at::kInt);
  return {part(0, rows),
          part(rows, rows),
          part(2 * rows, rows),
          part(3 * rows, rows),
          part(4 * rows, spans),
          part(4 * rows + spans, spans),
          numbers.narrow(0, 0, spans + 1),
          numbers.narrow(0, spans + 1, spans),
          device};
}

}  // namespace

const LayoutTensors& tensors_of(const Layout& layout, at::Device device) {
  const std::lock_guard lock(layout.on_device.mutex);
  auto& held = layout.on_device.tensors;
  if (held == nullptr || held->device != device) held = std::make_shared<const LayoutTensors>(made(layout, device));
  return *held;
}

at::Tensor host_memory(at::IntArrayRef shape, at::ScalarType dtype, at::Device device) {
  if (device.is_cpu() || device.is_meta()) return at::empty(shape, at::TensorOptions(dtype).device(device));
  return at::empty(shape, at::TensorOptions(dtype).pinned_memory(true));
}

at::Tensor sent(const at::Tensor& values, at::Device device) {
  return values.device() == device ? values : values.to(device, /*non_blocking=*/true);
}

}  // namespace trainer::nn::device
