// Lets a process that mpirun did not start become one of its ranks.
#pragma once

namespace trainer {

/// Note [Seats]
/// MPI must start the ranks itself, and so must our supervisor, which watches them, communicates with them and ends
/// them. So `mpirun` starts a placeholder for every rank, its slot, which writes its environment into a private folder
/// and then waits for the end of the run. The rank, a child of the supervisor as always, adopts that environment before
/// it initializes MPI. This makes it the rank that MPI expects, as MPI identifies ranks only by these variables.
/// kSeatsVariable names the folder, which has a file <rank> of entries that end in a zero byte.
inline constexpr const char* kSlotsVariable = "TRAINER_MPI_SEATS";

/// Takes the slot of `rank`, waiting until it exists. Does nothing when kSeatsVariable is not set.
/// Errors: MachineError.
void take_mpi_slot(int rank);

}  // namespace trainer
