// Signals as a file descriptor to poll.
#pragma once

#include <poll.h>
#include <signal.h>

#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/launch/status_server.h"

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

  /// From now on every wait of the launcher, which includes this queue, serves `server` too. It must outlive the queue.
  void serve_too(StatusServer& server) { server_ = &server; }

  /// Adds what ends a wait: signals, and requests to the server.
  void add_events(std::vector<pollfd>& events) const;

  /// The numbers of the signals that have arrived, once the server is served; doesn't wait.
  std::vector<int> take();

  /// The previous signal mask, which started programs must get.
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t mask_before_;
  struct sigaction child_before_;
  struct sigaction pipe_before_;
  FileDescriptor queue_;
  StatusServer* server_ = nullptr;
};

}  // namespace trainer::launch
