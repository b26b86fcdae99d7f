#pragma once

#include <cstdint>

namespace trainer {

/// Bytes that this process can still get: what the machine has free, within the limits of its cgroup and of ulimit.
/// The largest number when nothing is known.
int64_t free_memory();

/// The same by the files of a system under `root` (for tests): proc/meminfo, proc/self/cgroup, sys/fs/cgroup.
int64_t free_memory_of(const char* root);

}  // namespace trainer
