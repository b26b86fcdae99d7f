#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <gnu/libc-version.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/cgroups.h"
#include "engine/base/files.h"
#include "engine/base/free_memory.h"
#include "engine/base/human.h"
#include "engine/base/usable_cpus.h"
#include "engine/cli/env_facts.h"
#include "engine/cli/env_privacy.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

Fact text_fact(const std::string& name, const std::string& text) {
  return {name, text, text};
}

Fact bytes_fact(const std::string& name, int64_t bytes) {
  return {name, bytes, human_bytes(bytes)};
}

/// The value of `key` in lines of "key: value" or "key=value", the first one; "" without one.
std::string value_in(const fs::path& file, const std::string& key, char separator) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string name = line.substr(0, at);
    name.erase(name.find_last_not_of(" \t") + 1);
    if (name != key) continue;
    const std::size_t start = line.find_first_not_of(" \t\"", at + 1);
    if (start == std::string::npos) return "";
    return line.substr(start, line.find_last_not_of(" \t\"\r") - start + 1);
  }
  return "";
}

/// Bytes in lines of "key: 123 kB"; -1: unknown.
int64_t memory_line(const fs::path& file, const std::string& key) {
  std::istringstream words(value_in(file, key, ':'));
  int64_t kilobytes = 0;
  return words >> kilobytes ? kilobytes * 1024 : -1;
}

/// The least memory limit of this process's cgroups; -1: none.
int64_t cgroup_memory(const fs::path& root) {
  const std::string top = root == "/" ? "" : root.string();
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 writes a number near 2^63
  int64_t least = kNoLimit;
  const auto take = [&](const std::string& file) {
    std::ifstream in(file);
    if (int64_t bytes = 0; in >> bytes) least = std::min(least, bytes);
  };
  for (const std::string& folder : cgroup_folders(top)) take(folder + "/memory.max");
  for (const std::string& folder : cgroup_folders(top, "memory")) take(folder + "/memory.limit_in_bytes");
  return least == kNoLimit ? -1 : least;
}

std::string container_of(const fs::path& root) {
  std::error_code ignored;
  if (fs::exists(root / ".dockerenv", ignored)) return "Docker";
  if (fs::exists(root / "run/.containerenv", ignored)) return "Podman";
  if (fs::exists(root / ".singularity.d", ignored)) return "Apptainer";
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "Kubernetes";
  return "";
}

/// The instructions that libtorch, oneDNN or our kernels choose by, of those that the CPU has.
std::vector<std::string> vector_instructions(const fs::path& cpuinfo) {
  std::istringstream words(value_in(cpuinfo, "flags", ':') + " " + value_in(cpuinfo, "Features", ':'));
  const std::set<std::string> has{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> found;
  for (const char* name : {"avx",      "avx2",        "fma",         "f16c",        "avx_vnni", "avx512f",  "avx512bw",
                           "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
                           "asimd",    "asimddp",     "bf16",        "i8mm",        "sve",      "sve2"})
    if (has.contains(name)) found.emplace_back(name);
  return found;
}

int64_t numa_nodes(const fs::path& root) {
  int64_t nodes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename();
    nodes += static_cast<int64_t>(name.starts_with("node") && name.size() > 4 && std::isdigit(name[4]) != 0);
  }
  return nodes;
}

void add_limit(FactSection& section, const std::string& name, int resource, bool is_bytes) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY) {
    section.facts.push_back({name, nullptr, "unlimited"});
  } else {
    const auto value = static_cast<int64_t>(limit.rlim_cur);
    section.facts.push_back({name, value, is_bytes ? human_bytes(value) : std::to_string(value)});
  }
}

}  // namespace

FactSection system_facts(const fs::path& root) {
  FactSection section{"System", {}};
  if (const std::string name = value_in(root / "etc/os-release", "PRETTY_NAME", '='); !name.empty())
    section.facts.push_back(text_fact("system", name));
  utsname names{};
  if (uname(&names) == 0) {
    section.facts.push_back(text_fact("kernel", fmt::format("{} {}", names.sysname, names.release)));
    section.facts.push_back(text_fact("architecture", names.machine));
  }
  section.facts.push_back(text_fact("glibc", gnu_get_libc_version()));
  if (const std::string container = container_of(root); !container.empty())
    section.facts.push_back(text_fact("container", container));
  return section;
}

FactSection cpu_facts(const fs::path& root) {
  FactSection section{"CPU", {}};
  const fs::path cpuinfo = root / "proc/cpuinfo";
  if (const std::string model = value_in(cpuinfo, "model name", ':'); !model.empty())
    section.facts.push_back(text_fact("model", model));
  const int64_t online = sysconf(_SC_NPROCESSORS_ONLN), usable = usable_cpus(), quota = cpu_quota();
  section.facts.push_back({"cores of the machine", online, std::to_string(online)});
  section.facts.push_back({"cores usable", usable, std::to_string(usable)});
  if (quota > 0) section.facts.push_back({"cgroup's limit of cores", quota, std::to_string(quota)});
  if (const int64_t nodes = numa_nodes(root); nodes > 0)
    section.facts.push_back({"NUMA nodes", nodes, std::to_string(nodes)});
  const std::vector<std::string> has = vector_instructions(cpuinfo);
  section.facts.push_back(
      {"vector instructions", has, has.empty() ? "none found" : fmt::format("{}", fmt::join(has, " "))});
  return section;
}

FactSection memory_facts(const fs::path& root) {
  FactSection section{"Memory", {}};
  const fs::path meminfo = root / "proc/meminfo";
  const auto add = [&](const char* name, int64_t bytes) {
    if (bytes >= 0) section.facts.push_back(bytes_fact(name, bytes));
  };
  add("total", memory_line(meminfo, "MemTotal"));
  add("available", memory_line(meminfo, "MemAvailable"));
  add("swap", memory_line(meminfo, "SwapTotal"));
  add("cgroup's limit", cgroup_memory(root));
  struct statvfs shared {};
  if (statvfs((root / "dev/shm").c_str(), &shared) == 0) {
    const auto size = static_cast<int64_t>(shared.f_blocks * shared.f_frsize),
               left = static_cast<int64_t>(shared.f_bavail * shared.f_frsize);
    section.facts.push_back({"/dev/shm",
                             {{"size", size}, {"free", left}},
                             fmt::format("{}, {} free", human_bytes(size), human_bytes(left))});
  }
  add_limit(section, "ulimit -v (address space)", RLIMIT_AS, true);
  add_limit(section, "ulimit -l (locked memory)", RLIMIT_MEMLOCK, true);
  add_limit(section, "ulimit -n (open files)", RLIMIT_NOFILE, false);
  return section;
}

}  // namespace trainer::cli
