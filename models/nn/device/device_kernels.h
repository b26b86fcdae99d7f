// Layers on a device whose library has kernels (models/nn/kernel_table.h): the functions of models/nn call these if
// device_kernels() finds a table, else they run as reference layers.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"
#include "models/nn/kernel_table.h"

namespace trainer::nn {

/// The kernels of devices of that type, from now on; null: none. Not for use while layers run.
void use_device_kernels(c10::DeviceType type, const DeviceKernels* kernels);

/// The kernels for layers on `x`, on the CPU too if a test gave it some; null if its device has none, where reference
/// layers are forced, and in a dry run, whose memory is therefore that of the reference layers, an upper bound.
const DeviceKernels* device_kernels(const at::Tensor& x);

/// Null if kernels don't support the dtype.
std::optional<ElementType> element_type(at::ScalarType dtype);

namespace device {

/// The draws of the rows of a layout. It refers to the tensors that it was made with.
struct LayoutDraws {
  at::Tensor sample_index, token;  // int64 [T]; undefined if nothing is dropped
  DropoutRule rule;

  RowDraws rows() const;
};
LayoutDraws draws_of(const DropoutRule& rule, const Layout& layout, at::Device device);

/// The stream on which libtorch runs operators on the tensor.
void* stream_of(const DeviceKernels& kernels, const at::Tensor& x);

}  // namespace device
}  // namespace trainer::nn
