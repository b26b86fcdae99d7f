#include "tests/support/other_device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "tests/support/device.h"

namespace trainer::testing {
namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr uintptr_t kNowhere = uintptr_t{1} << 60;  // a bit that no valid address has

void* hidden(void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) | kNowhere);
}
void* found(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~kNowhere);
}

std::atomic<int64_t> held{0}, most{0};  // bytes

void count(int64_t bytes) {
  const int64_t now = held += bytes;
  for (int64_t peak = most; now > peak && !most.compare_exchange_weak(peak, now);) {
  }
}

constexpr size_t kHeader = 64;  // stores the size before each block; as wide as libtorch's alignment

void release(void* address) {
  if (address == nullptr) return;
  auto* const block = static_cast<char*>(found(address)) - kHeader;
  int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  count(-bytes);
  std::free(block);
}

struct Memory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, device()};
    auto* const block = static_cast<char*>(std::malloc(bytes + kHeader));
    const auto size = static_cast<int64_t>(bytes);
    std::memcpy(block, &size, sizeof size);
    count(size);
    void* const address = hidden(block + kHeader);
    return {address, address, &release, device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(found(to), found(from), bytes);
  }
};

/// A single device without streams; an event completes as soon as it is recorded.
struct Guard : c10::impl::NoOpDeviceGuardImpl<kDevice> {
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, device()); }
  c10::Stream getNewStream(c10::Device, int) const override { return getStream(device()); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};

struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

Memory memory;

/// The tensor's memory as a CPU tensor.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(found(tensor.unsafeGetTensorImpl()->data()), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

const at::Tensor& resized(const at::Tensor& tensor, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (tensor.sizes() == size) return tensor;
  const at::Tensor fresh = empty(size, tensor.scalar_type(), {}, {}, {}, {});
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return tensor;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  resized(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

void on_copies(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

[[maybe_unused]] const bool kKnown = [] {
  static Hooks hooks;
  c10::register_privateuse1_backend("other");  // otherwise autograd doesn't recognize the device
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kDevice, &memory);
  return true;
}();

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resized);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(&at::native::view));
  m.impl("_reshape_alias", &at::native::_reshape_alias);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_copies>());
}

}  // namespace

c10::Device device() {
  return {kDevice, 0};
}

int64_t peak_bytes() {
  return most;
}
void forget_peak() {
  most = held.load();
}

std::string why_no_device() {
  return "";
}

}  // namespace trainer::testing
