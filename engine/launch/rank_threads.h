// How many threads a rank computes with.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::launch {

/// `asked` (num_cpu_threads_per_process; 0: one), but not more than the CPUs that this process may run on: OpenMP's
/// threads wait for each other at the end of each loop, so 1,000 threads on 2 CPUs are 40 times slower than 2.
int64_t threads_of_rank(int64_t asked);

/// A line for the screen when threads_of_rank() is less than `asked`; else "".
std::string about_threads(int64_t asked);

}  // namespace trainer::launch
