// Processes that the kernel holds: SIGKILL ends them only once it lets go of them, maybe never.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace trainer::launch {

/// How long a killed process may take to end. The kernel needs seconds to free many gigabytes.
inline constexpr std::chrono::seconds kReapPatience{10};

/// Waits for a child to end; its status, as waitpid() gives it.
int wait_for_end(pid_t child);

/// Waits for a killed child. False when it hasn't ended after `patience`: then it stays behind.
bool reap_within(pid_t child, std::chrono::milliseconds patience);

/// What holds a process that was killed: "it is in state D (disk sleep) in nfs_wait_bit_killable", "its cgroup
/// /jobs/7 is frozen". From /proc and /sys; `root` replaces / in tests.
std::string what_holds(pid_t pid, const std::string& root = "");

/// The state of a process of which a thread waits in the kernel for a disk, a file server or a device, and takes no
/// signal meanwhile: "state D (disk sleep) in nfs_wait_bit_killable"; "" if none does. `main_thread`: only its first
/// thread counts.
std::string uninterruptible(pid_t pid, bool main_thread = false, const std::string& root = "");

}  // namespace trainer::launch
