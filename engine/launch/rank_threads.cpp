#include "engine/launch/rank_threads.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/usable_cpus.h"

namespace trainer::launch {
int64_t threads_of_rank(int64_t asked) {
  return std::max<int64_t>(1, std::min(asked, usable_cpus()));
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
