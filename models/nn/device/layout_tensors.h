// A layout as tensors on a device, made once for all layers.
#pragma once

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
  at::Tensor begin;         // int64 [S]: first row of each span
  at::Tensor length;        // int64 [S]
  at::Tensor starts;        // int32 [S + 1]: `begin`, then the end of the last span
  at::Tensor lengths;       // int32 [S]: `length` again
  at::Device device;
};

/// Valid until the layout is destroyed or asked for another device's.
const LayoutTensors& tensors_of(const Layout& layout, at::Device device);

/// An uninitialized tensor on the host, from which a copy to `device` needs no wait.
at::Tensor host_memory(at::IntArrayRef shape, at::ScalarType dtype, at::Device device);
/// `values` on `device`; the host doesn't wait. A tensor of host_memory() must not be written to afterwards.
at::Tensor sent(const at::Tensor& values, at::Device device);

}  // namespace trainer::nn::device
