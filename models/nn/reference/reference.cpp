#include "models/nn/reference/reference.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace trainer::nn {
namespace {

std::atomic<int> everywhere{0};      // number of live PlainEverywhere objects
thread_local int t_dry_devices = 0;  // a dry run has one thread: autograd stays on it too for meta tensors

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
  return x.is_meta() ? t_dry_devices > 0 : !x.is_cpu();
}

ReferenceEverywhere::ReferenceEverywhere() {
  ++everywhere;
}

ReferenceEverywhere::~ReferenceEverywhere() {
  --everywhere;
}

DryDevice::DryDevice() {
  ++t_dry_devices;
}

DryDevice::~DryDevice() {
  --t_dry_devices;
}

}  // namespace trainer::nn
