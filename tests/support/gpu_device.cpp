#include "engine/dist/accelerator.h"
#include "tests/support/device.h"

namespace trainer::testing {

c10::Device device() {
  static const c10::Device taken = dist::take_device(0, 1, /*shared=*/true);
  return taken;
}

std::string why_no_device() {
  const dist::Accelerator* const accelerator = dist::find_accelerator();
  if (accelerator == nullptr) return "this build has no GPU support (-DTRAINER_CUDA=ON)";
  return accelerator->count() > 0 ? "" : accelerator->why_none();
}

}  // namespace trainer::testing
