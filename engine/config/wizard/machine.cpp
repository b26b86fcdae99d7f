#include "engine/config/wizard/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>

#include "engine/base/usable_cpus.h"
#include "engine/base/visible_gpus.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The text after the colon in "model name\t: …".
std::string after_colon(const std::string& line) {
  const auto colon = line.find(':');
  const auto first = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
  return first == std::string::npos ? "" : line.substr(first);
}

/// The number of physical cores that this program can run on.
int64_t physical_cores(const fs::path& root) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const auto siblings =
        lines_of(root / fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings.front());
  }
  return std::max<int64_t>(1, static_cast<int64_t>(cores.size()));
}

int64_t memory(const fs::path& root) {
  int64_t total = 0;
  for (const std::string& line : lines_of(root / "proc/meminfo")) {
    if (line.starts_with("MemTotal:")) total = std::strtoll(after_colon(line).c_str(), nullptr, 10) * 1024;
  }
  int64_t limit = 0;
  std::ifstream(root / "sys/fs/cgroup/memory.max") >> limit;
  return limit > 0 && (total == 0 || limit < total) ? limit : total;
}

}  // namespace

std::string Machine::text() const {
  std::string out = fmt::format("{} {}", cores, cores == 1 ? "core" : "cores");
  if (memory_bytes > 0) out += fmt::format(", {:.1f} GiB of memory", static_cast<double>(memory_bytes) / (1 << 30));
  std::map<std::string, int> counts;
  for (const std::string& gpu : gpus) ++counts[gpu];
  if (counts.empty()) return out + ", no GPU";
  for (const auto& [name, count] : counts) out += fmt::format(", {} x {}", count, name);
  return out;
}

Machine read_machine(const fs::path& root, const GpuMachine& gpus) {
  Machine machine;
  machine.cores = physical_cores(root);
  if (const int64_t share = cpu_quota(root.string()); share > 0) machine.cores = std::min(machine.cores, share);
  machine.memory_bytes = memory(root);
  for (const VisibleGpu& one : visible_gpus(gpus, cuda_visible_devices())) {
    const bool first = machine.gpus.empty();
    machine.gpus.push_back(one.gpu->name);
    machine.gpu_bytes = first ? one.total_bytes() : std::min(machine.gpu_bytes, one.total_bytes());
  }
  return machine;
}

}  // namespace trainer::config
