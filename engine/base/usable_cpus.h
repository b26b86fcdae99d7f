// How many CPUs this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// The CPUs that the cgroups of this process (its container's limit) allow at a time, rounded down but at least 1; 0:
/// no limit. `root` replaces / in tests.
int64_t cpu_quota(const std::string& root = "");

/// What the affinity and cpu_quota() allow; at least 1. More threads would wait for each other: a thread that has used
/// up the quota sleeps for the rest of the period, some 50 ms, at each end of a loop.
int64_t usable_cpus();

}  // namespace trainer
