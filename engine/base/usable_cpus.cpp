#include "engine/base/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <thread>

#include "engine/base/cgroups.h"

namespace trainer {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Version 2: "QUOTA PERIOD" in microseconds, or "max PERIOD".
double quota_in_max(const std::string& folder) {
  std::ifstream in(folder + "/cpu.max");
  double quota = 0, period = 0;
  return in >> quota >> period && quota > 0 && period > 0 ? quota / period : kUnlimited;
}

/// Version 1: two files; a quota of -1 is none.
double quota_in_cfs(const std::string& folder) {
  std::ifstream quota_in(folder + "/cpu.cfs_quota_us"), period_in(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_in >> quota && period_in >> period && quota > 0 && period > 0 ? quota / period : kUnlimited;
}

}  // namespace

int64_t cpu_quota(const std::string& root) {
  double least = kUnlimited;
  for (const std::string& folder : cgroup_folders(root)) least = std::min(least, quota_in_max(folder));
  for (const std::string& folder : cgroup_folders(root, "cpu")) least = std::min(least, quota_in_cfs(folder));
  return least == kUnlimited ? 0 : std::max<int64_t>(1, static_cast<int64_t>(least));
}

int64_t usable_cpus() {
  cpu_set_t cpus;
  const int64_t allowed = sched_getaffinity(0, sizeof cpus, &cpus) == 0
                              ? CPU_COUNT(&cpus)
                              : static_cast<int64_t>(std::thread::hardware_concurrency());  // more than the set holds
  const int64_t quota = cpu_quota();
  return std::max<int64_t>(1, quota > 0 ? std::min(allowed, quota) : allowed);
}

}  // namespace trainer
