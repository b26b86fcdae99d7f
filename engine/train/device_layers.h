#pragma once

#include <c10/core/Device.h>

#include "engine/dist/accelerator.h"

namespace trainer::train {

/// From now on, layers on devices of this type run the accelerator's kernels, and those of libtorch's fused operators
/// that `device` has. Not for use while layers run.
void use_layers_of(const dist::Accelerator& accelerator, c10::Device device);

/// The kernels of dry runs that stand for a device; null: it has none. Like every CUDA build, it has them, unless the
/// accelerator that this process uses doesn't.
const nn::DeviceKernels* kernels_of_dry_runs();
void set_kernels_in_dry_runs(bool has_kernels);

/// Whether dry runs that stand for a device have cuDNN's attention; false unless the accelerator that this process uses
/// has it, or the card that is planned for.
bool cudnn_in_dry_runs();
void set_cudnn_in_dry_runs(bool has_cudnn);

}  // namespace trainer::train
