#include "engine/dist/accelerator.h"
#include "models/nn/device/attention_choice.h"
#include "models/nn/device/norms.h"
#include "models/nn/device/device_kernels.h"
#include "tests/support/device.h"

namespace trainer::testing {

c10::Device device() {
  static const c10::Device taken = [] {
    const c10::Device first = dist::take_device(0, 1, /*shared=*/true);
    const dist::Accelerator& accelerator = *dist::find_accelerator();
    nn::use_device_kernels(first.type(), accelerator.kernels());
    nn::use_fused_attention(first.type(), {accelerator.has_flash_attention(0), accelerator.has_efficient_attention(0)});
    nn::use_fused_norms(first.type(), accelerator.has_fused_norms());
    return first;
  }();
  return taken;
}

std::string why_no_device() {
  const dist::Accelerator* const accelerator = dist::find_accelerator();
  if (accelerator == nullptr) return "this build has no GPU support (-DTRAINER_CUDA=ON)";
  return accelerator->count() > 0 ? "" : accelerator->why_none();
}

}  // namespace trainer::testing
