// Signals as something to poll.
#pragma once

#include <signal.h>

#include <vector>

#include "engine/base/file_descriptor.h"

namespace trainer::launch {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT and SIGCHLD interrupt nothing: they wait in a
/// queue behind a file descriptor. Stop signals that the caller ignores (`nohup`, a background job of a script) stay
/// ignored. SIGPIPE is ignored, so that a closed terminal or log reader ends nothing. All is as before afterwards. For
/// a program with one thread.
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

  /// The signal mask outside: a started program must get this one back.
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t mask_before_;
  struct sigaction child_before_;
  struct sigaction pipe_before_;
  FileDescriptor queue_;
};

}  // namespace trainer::launch
