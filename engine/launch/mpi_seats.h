// Places among mpirun's ranks for the ranks that the supervisor starts. See Note [Seats] in engine/base/mpi_seat.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/base/file_descriptor.h"
#include "engine/launch/process.h"

namespace trainer::launch {

/// Keeps a seat for every rank while it lives. All that mpirun and MPI leave in files lies in one private folder, which
/// is gone afterwards, also when this process is killed.
class MpiSeats {
 public:
  /// Starts mpirun with the signal mask `mask`. Errors: MachineError when it is missing or cannot be started.
  MpiSeats(int64_t ranks, const sigset_t& mask);
  ~MpiSeats();
  MpiSeats(const MpiSeats&) = delete;
  MpiSeats& operator=(const MpiSeats&) = delete;

  /// The value of kSeatsVariable for the ranks.
  std::string folder() const { return folder_.string(); }

  /// Why there are no seats any more: what mpirun said when it ended by itself. Nothing while it runs.
  std::optional<std::string> lost();

 private:
  std::filesystem::path folder_;
  FileDescriptor end_;  // the seats wait for its closing
  Process mpirun_;
};

}  // namespace trainer::launch
