// A layout as tensors on a device, made once for all layers.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"

namespace trainer::nn::device {

// Note [Layout tensors]
// Every layer needs numbers of its rows: the counters of dropout, and for attention where samples begin. The first
// layer that asks sends all of them to the device in one copy from pinned memory, without a wait; later layers
// find them in the layout (nn::LayoutCache). T: rows, 0 if there are gaps between the spans; S: spans.
struct LayoutTensors {
  at::Tensor sample_index;  // int64 [T]: of the row's sample in the run
  at::Tensor token;         // int64 [T]: index within its sample
  at::Tensor span;          // int64 [T]: the row's span
  at::Tensor place;         // int64 [T]: index within its span
  at::Tensor sample;        // int64 [S]: `sample_index` of each span
  at::Tensor first_token;   // int64 [S]: `token` of each span's first row
  at::Tensor begin;         // int64 [S]: first row of each span
  at::Tensor length;        // int64 [S]
  at::Tensor starts;        // int32 [S + 1]: `begin`, then the end of the last span
  at::Tensor lengths;       // int32 [S]: `length` again
  at::Tensor all;           // the memory of all of them
  at::Device device;
};

/// Valid until the layout is destroyed or asked for another device's.
const LayoutTensors& tensors_of(const Layout& layout, at::Device device);

// Note [Shapes]
// A graph's operators read the same addresses each time, and the host tells them nothing. So a graph is recorded with a
// layout that is only a shape: its tensors lie where they are, other batches' samples are written there, and what
// depends on the spans alone, such as a rotary table, is sent once. While a graph is recorded, nothing may be sent
// (NothingSent): a copy would be repeated from memory of the host that is long gone.

/// A layer's error where it needs the samples on the host, but has only a shape.
struct NeedsSamples : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A layout with the spans of `layout` that is only a shape. Call set_samples() before layers run on it.
LayoutPtr shape_of(const Layout& layout);
/// From now on, in the order of the current stream, the rows of `shape` on the device are those of `layout`, which has
/// the same spans.
void set_samples(const Layout& shape, const Layout& layout, at::Device device);

/// A tensor on the device that `make` makes in host_memory() of nothing but the spans of `layout`. If that is only a
/// shape, its tensor called `name` is made once.
at::Tensor tensor_of_spans(const Layout& layout, const std::string& name, at::Device device,
                           const std::function<at::Tensor()>& make);

/// During its lifetime, sending to a device throws. For the whole process.
class NothingSent {
 public:
  NothingSent();
  ~NothingSent();
  NothingSent(const NothingSent&) = delete;
  NothingSent& operator=(const NothingSent&) = delete;
};

/// An uninitialized tensor on the host, from which a copy to `device` needs no wait.
at::Tensor host_memory(at::IntArrayRef shape, at::ScalarType dtype, at::Device device);
/// `values` on `device`; the host doesn't wait. A tensor of host_memory() must not be written to afterwards.
at::Tensor sent(const at::Tensor& values, at::Device device);

}  // namespace trainer::nn::device
