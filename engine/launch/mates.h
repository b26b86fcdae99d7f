// Processes that mpirun, srun or torchrun started beside this one.
//
// Note [Mates]
// Such a program starts one process for each rank, and here one process starts all the ranks of a machine: they share
// memory, and one screen and one watchdog look after them. So the first process of a machine runs its ranks, and its
// mates only wait. Each one says on which CPUs it was put, for its rank to run there (mpirun gives every process a core
// of its own), and ends with the exit code of the run, so that whoever started it sees what it expects. A stop signal
// reaches the first process too: mates let it pass. They meet at an abstract Unix socket, which nothing leaves behind
// and which processes of other users are not let in to.
#pragma once

#include <sched.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"

namespace trainer::launch {

/// The mates of the first process of a machine, as it sees them.
class Mates {
 public:
  /// From now on the mates of `job` can come; `count` of them are to. Errors: MachineError.
  Mates(const std::string& job, int count);
  /// Those that are still there see that this process has failed.
  ~Mates();
  Mates(const Mates&) = delete;
  Mates& operator=(const Mates&) = delete;

  /// Waits for all. Errors: PeerError when some have not come in time.
  void gather(std::chrono::milliseconds patience);
  /// On which CPUs each rank of this machine may run, this process's own first.
  std::vector<cpu_set_t> cpus() const;
  /// They end with `code`, also those that come in the next seconds.
  void dismiss(int code);

 private:
  struct Mate {
    FileDescriptor socket;
    cpu_set_t cpus{};
  };

  void accept_some(std::chrono::milliseconds patience);
  bool are_all_here() const { return std::ssize(mates_) == count_; }

  int count_;
  FileDescriptor listener_;
  std::map<int, Mate> mates_;  // by local rank
};

/// What a mate does: waits for the first process of its machine to end, and returns the exit code of the run.
/// Errors: PeerError when that one was not found within `patience`, or was lost.
int follow(const std::string& job, int local_rank, std::chrono::milliseconds patience);

}  // namespace trainer::launch
