#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Whether ranks of one machine may share memory. TRAINER_SHARE_MEMORY=0 in the environment disables it: ranks then
/// send each other everything, as on different machines.
bool may_share_memory();

/// Collective. Anonymous memory of rank 0 that the other ranks of this machine map too; it leaves nothing behind,
/// however the ranks end. Undefined (on every rank) when one of them cannot map it. Each rank counts an equal part of
/// the bytes. Errors: MachineError when there is not enough memory.
at::Tensor map_shared_memory(Comm& comm, int64_t bytes);

/// True when this run has one machine, so that its ranks can share memory. Set by the supervisor.
bool ranks_share_a_machine();

}  // namespace trainer::dist
