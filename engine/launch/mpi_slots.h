// Slots in mpirun's job for the ranks that the supervisor starts. See Note [Seats] in engine/base/mpi_slot.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/base/file_descriptor.h"
#include "engine/launch/process.h"

namespace trainer::launch {

/// Holds a slot for every rank during its lifetime. All files of mpirun and MPI are in one private folder, which is
/// removed afterwards, even when this process is killed.
class MpiSlots {
 public:
  /// Starts mpirun with the signal mask `mask`. Errors: MachineError when mpirun is missing or cannot be started.
  MpiSlots(int64_t ranks, const sigset_t& mask);
  ~MpiSlots();
  MpiSlots(const MpiSlots&) = delete;
  MpiSlots& operator=(const MpiSlots&) = delete;

  /// The value of kSeatsVariable for the ranks.
  std::string folder() const { return folder_.string(); }

  /// Why the slots are gone: the message of mpirun when it ended by itself. Nothing while it runs.
  std::optional<std::string> lost();

 private:
  std::filesystem::path folder_;
  FileDescriptor end_;  // the slots wait until it is closed
  Process mpirun_;
};

}  // namespace trainer::launch
