// Where a process stands, function by function.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trainer::launch {

/// The functions in which the first thread of a child of ours is, the innermost first: "trainer::dist::Comm::barrier",
/// without arguments. The process is held meanwhile, a second or so; it may be a stopped one. Empty when the system
/// does not let us look.
std::vector<std::string> native_stack(pid_t pid);

}  // namespace trainer::launch
