#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Ranks whose tensors live on `device`. What is on the CPU goes over `host`; what is on a device goes over `devices`,
/// or where that is null by way of the CPU, over `host` too.
std::unique_ptr<Comm> device_comm(std::unique_ptr<Comm> host, std::unique_ptr<Comm> devices, at::Device device);

}  // namespace trainer::dist
