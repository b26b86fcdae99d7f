#include "models/nn/device/attention_choice.h"
#include "models/nn/device/norms.h"
#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {

c10::Device device() {
  static const bool once = [] {
    nn::use_fused_attention(simulated::kType, {.flash = true, .efficient = true});
    nn::use_fused_norms(simulated::kType, true);
    return true;
  }();
  static_cast<void>(once);
  return simulated::current_device();
}

std::string why_no_device() {
  return "";
}

}  // namespace trainer::testing
