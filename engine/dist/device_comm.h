#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Ranks whose tensors are on `device`. Tensors on the CPU go over `host`; tensors on a device go over `devices`, or,
/// if that is null, through the CPU and `host`.
std::unique_ptr<Comm> device_comm(std::unique_ptr<Comm> host, std::unique_ptr<Comm> devices, at::Device device);

}  // namespace trainer::dist
