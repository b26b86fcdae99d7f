#pragma once

#include <cstdint>

namespace trainer {

/// Bytes that this process can still allocate: the machine's free memory, within the limits of its cgroup and of
/// ulimit. The largest number when unknown.
int64_t free_memory();

/// The same, read from the system files under `root` (for tests): proc/meminfo, proc/self/cgroup, sys/fs/cgroup.
int64_t free_memory_of(const char* root);

}  // namespace trainer
