#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// The transport between the ranks of a dry run: shared memory, Gloo, their devices' collectives (NCCL), or Gloo through
/// the CPU for tensors on devices, whose copies don't use device memory.
enum class Transport { kSharedMemory, kGloo, kDevices, kDevicesOverGloo };

/// Whether ranks compute on devices.
inline bool on_devices(Transport transport) {
  return transport == Transport::kDevices || transport == Transport::kDevicesOverGloo;
}

/// Simulates one of `size` ranks: its tensors are on the meta device, and nothing is sent. Allocates what the real
/// communicator would (see Note [Gloo's copies]), and records the transfers of devices' tensors (engine/dist/dry_trace.h).
std::unique_ptr<Comm> dry_comm(int rank, int size, Transport transport);

/// Records an all-reduce of `bytes` over the ranks of `comm`, a dry_comm(), that runs while the caller continues.
std::unique_ptr<Pending> dry_all_reduce(Comm& comm, int64_t bytes);

}  // namespace trainer::dist
