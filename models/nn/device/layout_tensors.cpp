#include "models/nn/device/layout_tensors.h"

#include <atomic>

#include <ATen/ops/empty.h>

namespace trainer::nn::device {
namespace {

std::atomic<int> nothing_sent{0};  // number of live NothingSent

void check_sending() {
  if (nothing_sent > 0) throw std::runtime_error("a layer sends numbers from the host to the device in every pass");
}

/// Fills sample_index, token, span and place [rows each], then sample, first_token, begin and length, then starts and
/// lengths.
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
    wide[4 * rows + s] = layout.sample_index.empty() ? 0 : layout.sample_index[s];
    wide[4 * rows + spans + s] = layout.start(s);
    wide[4 * rows + 2 * spans + s] = span.begin;
    wide[4 * rows + 3 * spans + s] = span.length;
    narrow[s] = static_cast<int32_t>(span.begin);
    narrow[spans + 1 + s] = static_cast<int32_t>(span.length);
  }
  narrow[spans] = static_cast<int32_t>(layout.tokens());
}

/// All numbers of a layout, in host_memory().
at::Tensor numbers_of(const Layout& layout, at::Device device) {
  const int64_t rows = layout.has_gaps() ? 0 : layout.tokens(), spans = layout.samples();
  const int64_t wide = 4 * rows + 4 * spans, narrow = 2 * spans + 1;
  at::Tensor all = host_memory({wide + (narrow + 1) / 2}, at::kLong, device);
  if (!all.is_meta())
    fill(layout, rows, all.data_ptr<int64_t>(), reinterpret_cast<int32_t*>(all.data_ptr<int64_t>() + wide));
  return all;
}

LayoutTensors made(const Layout& layout, at::Device device) {
  const int64_t rows = layout.has_gaps() ? 0 : layout.tokens(), spans = layout.samples();
  const int64_t wide = 4 * rows + 4 * spans, narrow = 2 * spans + 1;
  const at::Tensor all = sent(numbers_of(layout, device), device);
  const auto part = [&](int64_t begin, int64_t count) { return all.narrow(0, begin, count); };
  const at::Tensor numbers = part(wide, (narrow + 1) / 2).view(at::kInt);
  return {part(0, rows),
          part(rows, rows),
          part(2 * rows, rows),
          part(3 * rows, rows),
          part(4 * rows, spans),
          part(4 * rows + spans, spans),
          part(4 * rows + 2 * spans, spans),
          part(4 * rows + 3 * spans, spans),
          numbers.narrow(0, 0, spans + 1),
          numbers.narrow(0, spans + 1, spans),
          all,
          device};
}

}  // namespace

const LayoutTensors& tensors_of(const Layout& layout, at::Device device) {
  const std::lock_guard lock(layout.made.mutex);
  auto& held = layout.made.tensors;
  if (held == nullptr || held->device != device) held = std::make_shared<const LayoutTensors>(made(layout, device));
  return *held;
}

LayoutPtr shape_of(const Layout& layout) {
  auto shape = std::make_shared<Layout>(layout);
  shape->sample_index.clear();
  shape->shape_only = true;
  return shape;
}

void set_samples(const Layout& shape, const Layout& layout, at::Device device) {
  const std::lock_guard lock(shape.made.mutex);
  auto& held = shape.made.tensors;
  if (held == nullptr)
    held = std::make_shared<const LayoutTensors>(made(layout, device));
  else
    held->all.copy_(numbers_of(layout, device), /*non_blocking=*/true);
}

at::Tensor tensor_of_spans(const Layout& layout, const std::string& name, at::Device device,
                           const std::function<at::Tensor()>& make) {
  if (!layout.shape_only) return sent(make(), device);
  const std::lock_guard lock(layout.made.mutex);
  at::Tensor& held = layout.made.others[name];
  if (!held.defined()) held = sent(make(), device);
  return held;
}

NothingSent::NothingSent() {
  ++nothing_sent;
}
NothingSent::~NothingSent() {
  --nothing_sent;
}

at::Tensor host_memory(at::IntArrayRef shape, at::ScalarType dtype, at::Device device) {
  if (device.is_cpu() || device.is_meta()) return at::empty(shape, at::TensorOptions(dtype).device(device));
  check_sending();
  return at::empty(shape, at::TensorOptions(dtype).pinned_memory(true));
}

at::Tensor sent(const at::Tensor& values, at::Device device) {
  if (values.device() == device) return values;
  check_sending();
  return values.to(device, /*non_blocking=*/true);
}

}  // namespace trainer::nn::device
