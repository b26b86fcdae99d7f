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

/// The kernels for layers on `x`, on the CPU too if a test gave it some; in a dry run those of the DryDevice. Null if its
/// device has none, and where reference layers are forced.
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

/// Where the tensor's elements are; in a dry run, somewhere. Null if it is undefined.
const void* address_of(const at::Tensor& x);
template <class T>
const T* address_as(const at::Tensor& x) {
  return static_cast<const T*>(address_of(x));
}
/// As address_of(), to write there.
void* address_in(const at::Tensor& x);

/// The stream on which libtorch runs operators on the tensor.
void* stream_of(const DeviceKernels& kernels, const at::Tensor& x);

}  // namespace device
}  // namespace trainer::nn
