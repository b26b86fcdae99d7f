#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// The ranks of a run over MPI. The first call loads libtrainer_mpi.so, which is next to the program. The process must
/// have been started by mpirun, or have a slot that the supervisor holds for it (kSeatsVariable). Collective.
/// Errors: MachineError without the library, without a slot, or when MPI has a different number of ranks; PeerError.
std::unique_ptr<Comm> mpi_comm(int rank, int size);

}  // namespace trainer::dist
