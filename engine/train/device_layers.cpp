#include "engine/train/device_layers.h"

#include <atomic>

#include "engine/train/dry_kernels.h"
#include "models/nn/device/attention_choice.h"
#include "models/nn/device/device_kernels.h"
#include "models/nn/device/norms.h"

namespace trainer::train {
namespace {

std::atomic<bool> has_kernels_in_dry_runs{true}, has_cudnn_in_dry_runs{false};

}  // namespace

void use_layers_of(const dist::Accelerator& accelerator, c10::Device device) {
  nn::use_device_kernels(device.type(), accelerator.kernels());
  set_kernels_in_dry_runs(accelerator.kernels() != nullptr);
  const int index = device.index();
  set_cudnn_in_dry_runs(accelerator.has_cudnn_attention(index));
  nn::use_fused_attention(device.type(), {.flash = accelerator.has_flash_attention(index),
                                          .efficient = accelerator.has_efficient_attention(index),
                                          .cudnn = accelerator.has_cudnn_attention(index)});
  nn::use_fused_norms(device.type(), accelerator.has_fused_norms());
}

const nn::DeviceKernels* kernels_of_dry_runs() {
  return has_kernels_in_dry_runs ? &dry_kernels() : nullptr;
}

void set_kernels_in_dry_runs(bool has_kernels) {
  has_kernels_in_dry_runs = has_kernels;
}

bool cudnn_in_dry_runs() {
  return has_cudnn_in_dry_runs;
}

void set_cudnn_in_dry_runs(bool has_cudnn) {
  has_cudnn_in_dry_runs = has_cudnn;
}

}  // namespace trainer::train
