#pragma once

#include <c10/core/Device.h>

#include "engine/dist/accelerator.h"

namespace trainer::train {

/// From now on, layers on devices of this type run the accelerator's kernels, and those of libtorch's fused operators
/// that `device` has. Not for use while layers run.
void use_layers_of(const dist::Accelerator& accelerator, c10::Device device);

}  // namespace trainer::train
