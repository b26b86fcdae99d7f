#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Whether ranks of one machine may share memory: not with TRAINER_SHARE_MEMORY=0 in the environment, which makes them
/// send each other everything, as on different machines.
bool may_share_memory();

/// Collective. Anonymous memory of rank 0 that the other ranks of this machine map too: no name, so nothing is left
/// behind however the ranks end. Undefined (on every rank) when one of them cannot map it. Each rank counts its share
/// of the bytes. Errors: MachineError when there is not enough memory.
at::Tensor map_shared_memory(Comm& comm, int64_t bytes);

/// True when this run has one machine, so that its ranks can share memory. The supervisor says so.
bool ranks_share_a_machine();

}  // namespace trainer::dist
