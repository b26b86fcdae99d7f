#pragma once

#include <memory>

#include "engine/base/link.h"
#include "engine/checkpoint/folder_access.h"
#include "engine/config/sections.h"
#include "engine/dist/comm.h"

namespace trainer::worker {

/// Collective. All ranks of the run, by the library of training.ddp_backend; their tensors live where the configuration
/// trains. Errors: MachineError, PeerError.
std::unique_ptr<dist::Comm> meet(Link& link, const config::Config& config);

/// Whether this rank sees the output folder.
bool sees_output();
/// Collective. How ranks reach the output folder. Errors: PeerError.
checkpoint::FolderAccess meet_for_checkpoints(Link& link, const config::Config& config);

/// The memory that this rank may take where its tensors live, in bytes. `ranks`: of this machine.
int64_t free_bytes(const dist::Comm& comm, int ranks);

}  // namespace trainer::worker
