// The supervisor's side of its ranks' boards.
#pragma once

#include "engine/base/file_descriptor.h"
#include "engine/launch/rank_state.h"

namespace trainer::launch {

/// Memory for the boards of this machine's ranks, without a name: nothing is left behind.
class Boards {
 public:
  /// Errors: MachineError.
  explicit Boards(int ranks);
  ~Boards();
  Boards(const Boards&) = delete;
  Boards& operator=(const Boards&) = delete;

  /// For the ranks to inherit, under the name kBoardVariable.
  int fd() const { return file_.get(); }

  /// What the board of a rank shows now. `running` and the seconds are left to the caller.
  RankState read(int local_rank, int rank) const;

 private:
  size_t bytes_;
  FileDescriptor file_;
  const BoardMemory* boards_ = nullptr;
};

}  // namespace trainer::launch
