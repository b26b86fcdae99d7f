// The supervisor's view of its ranks' boards.
#pragma once

#include "engine/base/file_descriptor.h"
#include "engine/launch/rank_state.h"

namespace trainer::launch {

/// Anonymous shared memory for the boards of this machine's ranks; it leaves nothing behind.
class Boards {
 public:
  /// Errors: MachineError.
  explicit Boards(int ranks);
  ~Boards();
  Boards(const Boards&) = delete;
  Boards& operator=(const Boards&) = delete;

  /// Inherited by the ranks, which find its number in kBoardVariable.
  int fd() const { return file_.get(); }

  /// What a rank's board shows now. The caller fills in `running` and the seconds.
  RankState read(int local_rank, int rank) const;
  /// The mapped file that a rank has ended for, as it couldn't be read; "": none.
  std::string unreadable_file(int local_rank) const;

 private:
  size_t bytes_;
  FileDescriptor file_;
  const BoardMemory* boards_ = nullptr;
};

}  // namespace trainer::launch
