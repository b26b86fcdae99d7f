// The kernels of a device, in a dry run: they only report what they would read and write.
#pragma once

#include "models/nn/kernel_table.h"

namespace trainer::train {

/// Each records one operator (engine/dist/dry_trace.h).
const nn::DeviceKernels& dry_kernels();

}  // namespace trainer::train
