// Starting one rank as a process.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"

namespace trainer::launch {

struct Command {
  std::vector<std::string> words;                  // program and arguments
  std::map<std::string, std::string> environment;  // added to ours
  bool on_terminal = false;                        // shares our output; otherwise only its errors are kept
  int inherited = -1;                              // a file descriptor of ours that it gets under the same number
  std::optional<cpu_set_t> cpus{};                 // where it may run, as far as this machine lets it
};

struct Process {
  pid_t pid = 0;
  FileDescriptor link;    // our end of the socket pair
  FileDescriptor errors;  // what it writes to standard error; empty when it is on the terminal
};

/// Starts `command` as the leader of a process group of its own, so that a terminal's Ctrl-C reaches only us, and so
/// that it dies when the calling thread does. kLinkVariable names its end of the link. `mask` is its signal mask.
/// Errors: MachineError, also when the program can't be executed; then no process is left.
Process start_process(const Command& command, const sigset_t& mask);

/// Kills the process and all that it started. It stays to be waited for.
void kill_group(pid_t leader);

}  // namespace trainer::launch
