#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// The ranks of a run over MPI: libtrainer_mpi.so, beside the program, is loaded by the first call. The process must
/// have been started by mpirun, or have a seat that the supervisor keeps for it (kSeatsVariable). Collective.
/// Errors: MachineError without the library, without a seat, or when MPI knows of another number of ranks; PeerError.
std::unique_ptr<Comm> mpi_comm(int rank, int size);

}  // namespace trainer::dist
