#include "engine/dist/accelerator.h"
#include "engine/train/device_layers.h"
#include "tests/support/device.h"

namespace trainer::testing {

c10::Device device() {
  static const c10::Device taken = [] {
    const c10::Device first = dist::take_device(0, 1, /*shared=*/true);
    train::use_layers_of(*dist::find_accelerator(), first);
    return first;
  }();
  return taken;
}

std::string why_no_device() {
  const dist::Accelerator* const accelerator = dist::find_accelerator();
  if (accelerator == nullptr) return "this build has no GPU support (-DTRAINER_CUDA=ON)";
  return accelerator->count() > 0 ? "" : accelerator->why_none();
}

const nn::DeviceKernels& kernels_of_device() {
  static_cast<void>(device());
  return *dist::find_accelerator()->kernels();
}

std::optional<Asked> asked() {
  return std::nullopt;
}

int64_t peak_bytes() {
  return dist::find_accelerator()->peak_bytes(device().index());
}

void forget_peak() {
  dist::find_accelerator()->forget_peak(device().index());
}

}  // namespace trainer::testing
