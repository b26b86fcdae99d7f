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

/// The number after `key` at the beginning of a line of the file.
int64_t number_after(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return kUnknown;
}

int64_t kilobytes_of(const std::string& file, const std::string& key) {
  const int64_t kilobytes = number_after(file, key);
  return kilobytes == kUnknown ? kUnknown : kilobytes * 1024;
}

int64_t number_in(const std::string& file) {
  std::ifstream in(file);
  int64_t number = 0;
  return in >> number ? number : kUnknown;  // "max": no limit
}

/// The files in which a version of cgroups says how much memory a group may use and does use, and the keys of its
/// memory.stat that count pages of files, which are dropped when memory is short.
struct Accounting {
  const char *controller, *limit, *usage, *files[2];
};
constexpr Accounting kVersions[] = {
    {"", "/memory.max", "/memory.current", {"inactive_file", "active_file"}},
    {"memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}}};

/// Bytes still allowed by the cgroup and those above it.
int64_t left_in_cgroups(const std::string& root) {
  int64_t left = kUnknown;
  for (const Accounting& version : kVersions)
    for (const std::string& folder : cgroup_folders(root, version.controller)) {
      const int64_t most = number_in(folder + version.limit);
      int64_t used = number_in(folder + version.usage);
      if (most == kUnknown || used == kUnknown) continue;
      for (const char* key : version.files)
        if (const int64_t bytes = number_after(folder + "/memory.stat", key); bytes != kUnknown) used -= bytes;
      left = std::min(left, std::max<int64_t>(0, most - std::max<int64_t>(0, used)));
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
