#include "engine/train/device_layers.h"

#include "models/nn/device/attention_choice.h"
#include "models/nn/device/device_kernels.h"
#include "models/nn/device/norms.h"

namespace trainer::train {

void use_layers_of(const dist::Accelerator& accelerator, c10::Device device) {
  nn::use_device_kernels(device.type(), accelerator.kernels());
  nn::use_fused_attention(device.type(), {accelerator.has_flash_attention(device.index()),
                                          accelerator.has_efficient_attention(device.index())});
  nn::use_fused_norms(device.type(), accelerator.has_fused_norms());
}

}  // namespace trainer::train
