#include "engine/base/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

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

/// The least of a group and those above it, up to the top of what this process sees.
double least_upwards(const std::string& top, std::string group, const std::function<double(const std::string&)>& of) {
  double least = kUnlimited;
  for (;;) {
    least = std::min(least, of(top + group));
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return least;
    group.resize(slash);
  }
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

int64_t cpu_quota(const std::string& root) {
  double least = quota_in_max(root + "/sys/fs/cgroup");  // in a container, its own group is at the top
  // Lines "0::GROUP" (version 2) and "NUMBER:CONTROLLERS:GROUP" (version 1).
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* const mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
        least = std::min(least, least_upwards(root + mount, group, quota_in_max));
    } else if (names_cpu(controllers)) {
      for (const char* const mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
        least = std::min(least, least_upwards(root + mount, group, quota_in_cfs));
    }
  }
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
