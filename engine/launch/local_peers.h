// Peer processes that mpirun, srun or torchrun started next to this one.
//
// Note [Peer processes]
// These programs start one process per rank, but our launcher starts all the ranks of a machine from one process: they
// share memory, a screen and a watchdog. So the first process of a machine runs its ranks, and its peers only wait.
// Each peer reports the CPUs it was bound to, where its rank then runs (mpirun binds every process to its own core),
// and the GPUs it was given (srun --gpus-per-task), and exits with the exit code of the run, as the program that
// started it expects. Peers ignore stop signals, which reach the first process too. They connect through an abstract
// Unix socket, which leaves nothing behind; processes of other users are rejected.
#pragma once

#include <sched.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/launch/rank_places.h"

namespace trainer::launch {

/// The peers of the first process of a machine, as it sees them.
class LocalPeers {
 public:
  /// From now on the peers of `job` can connect; `count` of them are expected. Errors: MachineError.
  LocalPeers(const std::string& job, int count);
  /// Peers that are still connected see that this process has failed.
  ~LocalPeers();
  LocalPeers(const LocalPeers&) = delete;
  LocalPeers& operator=(const LocalPeers&) = delete;

  /// Waits for all. Errors: PeerError when some have not connected in time.
  void gather(std::chrono::milliseconds patience);
  /// Where each rank of this machine may run, this process's own place first.
  std::vector<PeerPlace> places() const;
  /// Makes the peers exit with `code`, including those that connect within the next seconds.
  void dismiss(int code);

 private:
  struct Peer {
    FileDescriptor socket;
    PeerPlace place;
  };

  void accept_some(std::chrono::milliseconds patience);
  bool are_all_here() const { return std::ssize(peers_) == count_; }

  int count_;
  FileDescriptor listener_;
  std::map<int, Peer> peers_;  // by local rank
};

/// Run by a peer: waits for the first process of its machine to end, and returns the exit code of the run.
/// Errors: PeerError when the first process was not found within `patience`, or was lost.
int follow(const std::string& job, int local_rank, std::chrono::milliseconds patience);

}  // namespace trainer::launch
