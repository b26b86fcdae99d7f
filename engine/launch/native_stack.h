// The call stack of a process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trainer::launch {

/// The call stack of a child process's first thread, innermost function first, without arguments:
/// "trainer::dist::Comm::barrier". The process, which may already be stopped, is paused meanwhile for about a second.
/// Empty when the system doesn't permit ptrace, and after five seconds: a process that the kernel holds answers no
/// tracer, so a child of ours asks, which can be killed.
std::vector<std::string> native_stack(pid_t pid);

}  // namespace trainer::launch
