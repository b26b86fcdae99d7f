#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/gpu_library.h"
#include "engine/base/human.h"
#include "engine/cli/env_facts.h"
#include "engine/cli/env_privacy.h"
#include "engine/config/machine/started_rank.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// The first executable file of that name in PATH; "" without one.
std::string program_in_path(const std::string& name) {
  const std::string path = config::environment_value("PATH");
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const fs::path file = fs::path(path.substr(at, end - at)) / name;
    std::error_code ignored;
    if (file.is_absolute() && fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return "";
}

std::string started_text() {
  try {
    const auto started = config::started_rank();
    if (!started) return "by hand";
    return fmt::format("by {}: rank {} of {}, local rank {} of {}", started->by, started->rank, started->ranks,
                       started->local_rank, started->local_ranks);
  } catch (const Error& error) {
    return public_text(error.what());
  }
}

}  // namespace

FactSection gpu_facts() {
  FactSection section{"GPUs", {}};
  const GpuMachine& machine = gpus_here();
  if (!machine.driver.empty()) section.facts.push_back({"driver", machine.driver, machine.driver});
  if (machine.cuda > 0) {
    const std::string newest = fmt::format("{}.{}", machine.cuda / 1000, machine.cuda % 1000 / 10);
    section.facts.push_back({"newest CUDA of the driver", newest, newest});
  }
  for (const Gpu& gpu : machine.gpus) {
    std::string text = gpu.name;
    if (gpu.total_bytes > 0)
      text += fmt::format(", {} of {} used", human_bytes(gpu.used_bytes), human_bytes(gpu.total_bytes));
    if (gpu.capability_major > 0)
      text += fmt::format(", compute capability {}.{}", gpu.capability_major, gpu.capability_minor);
    if (gpu.numa_node >= 0) text += fmt::format(", NUMA node {}", gpu.numa_node);
    if (gpu.mig) text += fmt::format(", MIG mode with {} instances", gpu.instances.size());
    section.facts.push_back({fmt::format("GPU {}", gpu.number),
                             {{"name", gpu.name},
                              {"bytes", gpu.total_bytes},
                              {"used", gpu.used_bytes},
                              {"capability", fmt::format("{}.{}", gpu.capability_major, gpu.capability_minor)},
                              {"numa_node", gpu.numa_node},
                              {"mig_instances", gpu.instances.size()}},
                             text});
  }
  if (!machine.trouble.empty()) section.facts.push_back({"driver's trouble", machine.trouble, machine.trouble});
  const int64_t visible = count_visible_gpus();
  section.facts.push_back({"GPUs visible", visible, std::to_string(visible)});
  const std::string why = why_no_gpus(1);
  section.facts.push_back({"usable", why.empty(), why.empty() ? "yes" : "no: " + public_text(why)});
  return section;
}

FactSection network_facts(const fs::path& root) {
  FactSection section{"Network", {}};
  std::vector<std::string> shown;
  nlohmann::ordered_json interfaces = nlohmann::ordered_json::array();
  for (const std::string& name : names_in(root / "sys/class/net")) {
    const fs::path folder = root / "sys/class/net" / name;
    const std::string state = first_line(folder / "operstate"), speed = first_line(folder / "speed");
    const bool knows_speed = !speed.empty() && speed.front() != '-';
    interfaces.push_back({{"name", name}, {"state", state}, {"mbit_per_second", knows_speed ? std::stoll(speed) : 0}});
    shown.push_back(fmt::format("{} ({}{})", name, state, knows_speed ? ", " + speed + " Mbit/s" : ""));
  }
  section.facts.push_back(
      {"interfaces", interfaces, shown.empty() ? "none" : fmt::format("{}", fmt::join(shown, ", "))});
  for (const char* variable : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const std::string name = public_text(config::environment_value(variable));
    section.facts.push_back({fmt::format("chosen by {}", variable), name,
                             !name.empty() ? name : "not set: that of the route to main_process_ip"});
  }
  if (const auto devices = names_in(root / "sys/class/infiniband"); !devices.empty())
    section.facts.push_back({"InfiniBand", devices, fmt::format("{}", fmt::join(devices, " "))});
  return section;
}

FactSection scheduler_facts() {
  FactSection section{"Launchers", {}};
  for (const char* name : {"mpirun", "srun", "torchrun"}) {
    const std::string file = public_text(program_in_path(name));
    section.facts.push_back({name, file, file.empty() ? "not in PATH" : file});
  }
  const std::string started = started_text();
  section.facts.push_back({"this process was started", started, started});
  return section;
}

}  // namespace trainer::cli
