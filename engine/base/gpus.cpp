#include "engine/base/gpus.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "engine/base/files.h"
#include "engine/base/nvml.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

/// The values of "Model: \t\t NVIDIA H200" lines, by their names.
std::map<std::string, std::string> facts_in(const fs::path& file) {
  std::map<std::string, std::string> facts;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    const auto first = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (first != std::string::npos) facts[line.substr(0, colon)] = line.substr(first);
  }
  return facts;
}

/// The numbers of /dev/nvidia0, /dev/nvidia1…, ascending. A container may have only nvidia3.
std::vector<int64_t> device_files(const fs::path& root) {
  std::vector<int64_t> minors;
  std::error_code none;
  for (const auto& device : fs::directory_iterator(root / "dev", none)) {
    const std::string name = device.path().filename();
    if (!name.starts_with("nvidia")) continue;
    if (const auto minor = whole_number(std::string_view(name).substr(6))) minors.push_back(*minor);
  }
  std::sort(minors.begin(), minors.end());
  return minors;
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19…": the first word that is a version.
std::string version_of_module(const fs::path& root) {
  std::string line = first_line(root / "proc/driver/nvidia/version");
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
    at = end + 1;
  }
  return "";
}

/// Without NVML. /proc may describe all GPUs of the host; those with a device file can be used.
void scan(const fs::path& root, GpuMachine& machine) {
  machine.driver = version_of_module(root);
  std::map<int64_t, Gpu> described;  // by their minor numbers
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(root / "proc/driver/nvidia/gpus", none)) {
    auto facts = facts_in(folder.path() / "information");
    const auto minor = whole_number(facts["Device Minor"]);
    if (!minor) continue;
    Gpu& gpu = described[*minor];
    if (!facts["Model"].empty()) gpu.name = facts["Model"];
    if (facts["GPU UUID"].starts_with("GPU-") && facts["GPU UUID"].find('?') == std::string::npos)
      gpu.uuid = facts["GPU UUID"];
    gpu.bus = facts["Bus Location"];
  }
  for (const int64_t minor : device_files(root)) {
    machine.gpus.push_back(described[minor]);
    machine.gpus.back().minor = minor;
  }
  std::stable_sort(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.bus < b.bus; });
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view range = std::string_view(text).substr(at, end - at);
    const size_t dash = range.find('-');
    const auto first = whole_number(range.substr(0, dash)),
               last = dash == std::string_view::npos ? first : whole_number(range.substr(dash + 1));
    if (!first || !last || *last > 1 << 20) return {};
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    at = end + 1;
  }
  return cpus;
}

std::vector<int> cpus_of_node(int node, const fs::path& root) {
  return parse_cpu_list(first_line(root / fmt::format("sys/devices/system/node/node{}/cpulist", node)));
}

GpuMachine read_gpus(const fs::path& root, const std::string& nvml) {
  GpuMachine machine;
  if (!nvml::read(nvml, root, machine)) scan(root, machine);
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    Gpu& gpu = machine.gpus[i];
    gpu.number = static_cast<int64_t>(i);
    if (const auto node = whole_number(first_line(root / "sys/bus/pci/devices" / gpu.bus / "numa_node")))
      gpu.numa_node = static_cast<int>(*node);
  }
  return machine;
}

const GpuMachine& gpus_here() {
  static const GpuMachine here = read_gpus();
  return here;
}

}  // namespace trainer
