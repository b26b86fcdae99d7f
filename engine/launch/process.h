// Starts one rank as a process.
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
  bool on_terminal = false;                        // shares our output; otherwise only its standard error is captured
  int inherited = -1;                              // a file descriptor of ours that it inherits with the same number
  std::optional<cpu_set_t> cpus{};                 // where it may run; the kernel may refuse
};

struct Process {
  pid_t pid = 0;
  FileDescriptor link;    // our end of the socket pair
  FileDescriptor errors;  // its standard error; empty when it is on the terminal
};

/// Starts `command` as the leader of its own process group, so that a terminal's Ctrl-C reaches only the launcher; the
/// process dies when the calling thread does. kLinkVariable names its end of the link. `mask` is its signal mask.
/// Errors: MachineError, also when the program can't be executed; then no process is left.
Process start_process(const Command& command, const sigset_t& mask);

/// Kills the process and everything it started. The caller must still wait for it.
void kill_group(pid_t leader);

}  // namespace trainer::launch
