// Signals as a file descriptor to poll.
#pragma once

#include <signal.h>

#include <vector>

#include "engine/base/file_descriptor.h"

namespace trainer::launch {

/// During its lifetime, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT and SIGCHLD are queued behind a file
/// descriptor and interrupt nothing. Stop signals that the caller ignores (`nohup`, a background job of a script) stay
/// ignored. SIGPIPE is ignored, so that a closed terminal or log reader ends nothing. The destructor restores the
/// previous state. For single-threaded programs.
class SignalQueue {
 public:
  /// Errors: MachineError.
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return queue_.get(); }

  /// The numbers of the signals that have arrived; doesn't wait.
  std::vector<int> take();

  /// The previous signal mask, which started programs must get.
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t mask_before_;
  struct sigaction child_before_;
  struct sigaction pipe_before_;
  FileDescriptor queue_;
};

}  // namespace trainer::launch
