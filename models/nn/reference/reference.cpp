#include "models/nn/reference/reference.h"

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace trainer::nn {
namespace {

std::atomic<int> everywhere{0};  // number of live PlainEverywhere objects
// A dry run has one thread: autograd stays on it too for meta tensors.
thread_local const DryDevice* t_dry_device = nullptr;

bool asked_by_environment() {
  static const bool asked = [] {
    const char* const value = std::getenv("TRAINER_PLAIN_LAYERS");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked;
}

}  // namespace

bool forces_reference() {
  return everywhere > 0 || asked_by_environment();
}

bool runs_reference(const at::Tensor& x) {
  return forces_reference() || on_device(x);
}

bool on_device(const at::Tensor& x) {
  return x.is_meta() ? t_dry_device != nullptr : !x.is_cpu();
}

ReferenceEverywhere::ReferenceEverywhere() {
  ++everywhere;
}

ReferenceEverywhere::~ReferenceEverywhere() {
  --everywhere;
}

DryDevice::DryDevice(const DeviceKernels* kernels, bool has_cudnn)
    : kernels_(kernels), has_cudnn_(has_cudnn), outer_(std::exchange(t_dry_device, this)) {}

DryDevice::~DryDevice() {
  t_dry_device = outer_;
}

const DeviceKernels* DryDevice::current_kernels() {
  return t_dry_device == nullptr ? nullptr : t_dry_device->kernels_;
}

bool DryDevice::has_cudnn() {
  return t_dry_device != nullptr && t_dry_device->has_cudnn_;
}

}  // namespace trainer::nn
