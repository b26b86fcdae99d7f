#include "engine/launch/rank_threads.h"

#include <sched.h>

#include <algorithm>

#include <fmt/format.h>

namespace trainer::launch {
namespace {

/// 0: unknown, on a machine with more CPUs than the set can hold.
int64_t usable_cpus() {
  cpu_set_t cpus;
  return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 0;
}

}  // namespace

int64_t threads_of_rank(int64_t asked) {
  const int64_t cpus = usable_cpus();
  return std::max<int64_t>(1, cpus == 0 ? asked : std::min(asked, cpus));
}

std::string about_threads(int64_t asked) {
  const int64_t used = threads_of_rank(asked);
  if (used >= asked) return "";
  return fmt::format(
      "trainer: num_cpu_threads_per_process (OMP_NUM_THREADS) is {}, but {} CPU{} can be used: each rank computes with "
      "{} thread{}\n",
      asked, used, used == 1 ? "" : "s", used, used == 1 ? "" : "s");
}

}  // namespace trainer::launch
