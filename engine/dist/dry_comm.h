#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// What lies between the ranks of a dry run: memory that they share, Gloo, or the collectives of devices that they are
/// on (NCCL, or Gloo by way of the host: its copies are none of the device's).
enum class Transport { kSharedMemory, kGloo, kDevices };

/// One of `size` ranks, without the others: its tensors are of the meta device, and nothing is sent. Allocates what the
/// real communicator would (see Note [Gloo's copies]).
std::unique_ptr<Comm> dry_comm(int rank, int size, Transport transport);

}  // namespace trainer::dist
