#include "engine/base/free_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "engine/base/cgroups.h"

namespace trainer {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

/// The value of `key` in lines of "key: 123 kB", in bytes.
int64_t kilobytes_of(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == key) return kilobytes * 1024;
  }
  return kUnknown;
}

int64_t number_in(const std::string& file) {
  std::ifstream in(file);
  int64_t number = 0;
  return in >> number ? number : kUnknown;  // "max": no limit
}

/// Bytes still allowed by the cgroup (version 2) and those above it.
int64_t left_in_cgroups(const std::string& root) {
  int64_t left = kUnknown;
  for (const std::string& folder : cgroup_folders(root)) {
    const int64_t most = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
    if (most != kUnknown && used != kUnknown) left = std::min(left, std::max<int64_t>(0, most - used));
  }
  return left;
}

/// Bytes still allowed by `ulimit -v`.
int64_t left_of_address_space(const std::string& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const int64_t used = kilobytes_of(root + "/proc/self/status", "VmSize:");
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - (used == kUnknown ? 0 : used));
}

}  // namespace

int64_t free_memory_of(const char* root) {
  return std::min({kilobytes_of(std::string(root) + "/proc/meminfo", "MemAvailable:"), left_in_cgroups(root),
                   left_of_address_space(root)});
}

int64_t free_memory() {
  return free_memory_of("");
}

}  // namespace trainer
