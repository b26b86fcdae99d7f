#include "models/nn/device/device_kernels.h"

#include <array>
#include <atomic>

#include "models/nn/reference/reference.h"
#include "models/nn/reference/rows.h"

namespace trainer::nn {
namespace {

std::array<std::atomic<const DeviceKernels*>, c10::COMPILE_TIME_MAX_DEVICE_TYPES> kernels_of_type{};

}  // namespace

void use_device_kernels(c10::DeviceType type, const DeviceKernels* kernels) {
  kernels_of_type.at(static_cast<size_t>(type)) = kernels;
}

const DeviceKernels* device_kernels(const at::Tensor& x) {
  if (forces_reference()) return nullptr;
  if (x.is_meta()) return DryDevice::current_kernels();
  return kernels_of_type.at(static_cast<size_t>(x.device().type()));
}

std::optional<ElementType> element_type(at::ScalarType dtype) {
  if (dtype == at::kFloat) return ElementType::kFloat;
  if (dtype == at::kBFloat16) return ElementType::kBfloat16;
  if (dtype == at::kHalf) return ElementType::kHalf;
  return std::nullopt;
}

namespace device {

RowDraws LayoutDraws::rows() const {
  if (!rule.active()) return {};
  return {address_as<int64_t>(sample_index),
          address_as<int64_t>(token),
          rule.key,
          rule.threshold,
          rule.scale,
          rule.first};
}

LayoutDraws draws_of(const DropoutRule& rule, const Layout& layout, at::Device device) {
  if (!rule.active()) return {};
  const reference::RowNumbers rows = reference::row_numbers(layout, device);
  return {rows.position, rows.token, rule};
}

const void* address_of(const at::Tensor& x) {
  static constexpr char kSomewhere = 0;  // tensors of a dry run have no address
  if (!x.defined()) return nullptr;
  return x.is_meta() ? &kSomewhere : x.const_data_ptr();
}

void* address_in(const at::Tensor& x) {
  return x.defined() && !x.is_meta() ? x.data_ptr() : const_cast<void*>(address_of(x));  // nothing is written there
}

void* stream_of(const DeviceKernels& kernels, const at::Tensor& x) {
  return kernels.current_stream(x.device().index());
}

}  // namespace device
}  // namespace trainer::nn
