// How a process that mpirun did not start becomes one of its ranks.
#pragma once

namespace trainer {

/// Note [Seats]
/// MPI wants to start the ranks itself, and so does our supervisor, which watches them, talks with them and ends them.
/// Both get their way: `mpirun` starts a placeholder for every rank, the seat, which writes its environment into a
/// private folder and then waits for the end of the run. The rank, a child of the supervisor as ever, takes over that
/// environment before it initialises MPI, and is the rank that MPI expects: that is told by these variables alone.
/// kSeatsVariable names the folder, which has a file <rank> of entries that end in a zero byte.
inline constexpr const char* kSeatsVariable = "TRAINER_MPI_SEATS";

/// Takes the seat of `rank`, waiting for it to be there; nothing to do when kSeatsVariable is not set.
/// Errors: MachineError.
void take_mpi_seat(int rank);

}  // namespace trainer
