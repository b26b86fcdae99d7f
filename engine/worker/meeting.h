#pragma once

#include <memory>

#include "engine/base/link.h"
#include "engine/checkpoint/folder_access.h"
#include "engine/config/sections.h"
#include "engine/dist/comm.h"

namespace trainer::worker {

/// Collective. Connects all ranks of the run over training.ddp_backend, for tensors on the configured device.
/// Errors: MachineError, PeerError.
std::unique_ptr<dist::Comm> meet(Link& link, const config::Config& config);

/// Whether this rank sees the output folder.
bool sees_output();
/// Collective. How ranks access the output folder. Errors: PeerError.
checkpoint::FolderAccess meet_for_checkpoints(Link& link, const config::Config& config);

/// The memory that this rank can use on its device, in bytes. `ranks`: on this machine.
int64_t free_bytes(const dist::Comm& comm, int ranks);

}  // namespace trainer::worker
