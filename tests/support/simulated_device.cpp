#include "models/nn/device/attention_choice.h"
#include "models/nn/device/norms.h"
#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {

c10::Device device() {
  static const bool once = [] {
    nn::use_fused_attention(simulated::kType, {.flash = true, .efficient = true, .cudnn = true});
    nn::use_fused_norms(simulated::kType, true);
    return true;
  }();
  static_cast<void>(once);
  return simulated::current_device();
}

std::string why_no_device() {
  return "";
}

std::optional<Asked> asked() {
  const simulated::Counters found = simulated::counters();
  return Asked{found.launches, found.synchronizations, found.copies};
}

int64_t peak_bytes() {
  return simulated::peak_bytes(device().index());
}

void forget_peak() {
  simulated::forget_peak(device().index());
}

}  // namespace trainer::testing
