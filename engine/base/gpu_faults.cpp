#include "engine/base/gpu_faults.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/listed.h"

namespace trainer {
namespace {

constexpr int64_t kLeastFree = int64_t{1} << 30;  // CUDA's context and libraries take about half of it
constexpr int kLeastForBf16 = 80;                 // compute capability 8.0, Ampere
constexpr double kNoticed = 0.1;                  // of a GPU's memory, used by others

std::string fault_of_driver(const GpuMachine& machine) {
  const std::string version = machine.driver.empty() ? "" : " " + machine.driver;
  if (!machine.trouble.empty())
    return fmt::format(
        "the NVIDIA driver{} does not work: {}\n  nvidia-smi shows the same; a driver that was updated works again "
        "after a restart of the machine. use_cpu: true trains on the CPU.",
        version, machine.trouble);
  if (machine.cuda > 0 && machine.cuda < kCuda / 1000 * 1000)
    return fmt::format(
        "the NVIDIA driver{} supports CUDA {}, but this build needs CUDA {}, which comes with driver {} and newer\n  "
        "update the driver, or add the package cuda-compat-{}-{} to the image (data center GPUs only). use_cpu: true "
        "trains on the CPU.",
        version, cuda_text(machine.cuda), cuda_text(kCuda), kLeastDriver, kCuda / 1000, kCuda % 1000 / 10);
  return "";
}

int capability_of(const Gpu& gpu) {
  return 10 * gpu.capability_major + gpu.capability_minor;
}

std::string fault_of_gpu(const VisibleGpu& used) {
  const Gpu& gpu = *used.gpu;
  const int capability = capability_of(gpu);
  if (capability > 0 && capability < kLeastCapability)
    return fmt::format(
        "{} has compute capability {}.{}, but this build is for {}.{} and newer\n  choose other GPUs with gpu_ids, or "
        "train with use_cpu: true",
        used.text(), gpu.capability_major, gpu.capability_minor, kLeastCapability / 10, kLeastCapability % 10);
  const int64_t free = used.total_bytes() - used.used_bytes();
  if (used.total_bytes() <= 0 || free >= kLeastFree) return "";
  const std::string users = users_of(gpu);
  return fmt::format(
      "{} is full: {} of {} are free, and a rank needs {} before it has any tensor\n  {}; or choose other GPUs with "
      "gpu_ids",
      used.text(), human_bytes(free), human_bytes(used.total_bytes()), human_bytes(kLeastFree),
      users.empty() ? "stop the processes that use it (nvidia-smi lists them)" : "it is used by " + users);
}

/// Without NVML, only the version of the kernel module is known: libraries of cuda-compat would make it sufficient.
std::string warning_of_module(const GpuMachine& machine) {
  const int version = std::atoi(machine.driver.c_str());
  if (machine.cuda > 0 || version <= 0 || version >= kLeastDriver) return "";
  return fmt::format(
      "the NVIDIA driver {} is older than {}, which CUDA {} of this build needs. Only the package cuda-compat-{}-{} in "
      "the image makes it sufficient.",
      machine.driver, kLeastDriver, cuda_text(kCuda), kCuda / 1000, kCuda % 1000 / 10);
}

/// "NVIDIA A100 (40 GiB)" for each kind of GPU.
std::vector<std::string> kinds_of(const std::vector<VisibleGpu>& gpus) {
  std::vector<std::string> kinds;
  for (const VisibleGpu& one : gpus) {
    std::string kind = fmt::format("{} ({})", one.gpu->name, human_bytes(one.total_bytes()));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string kinds_text(const std::vector<VisibleGpu>& gpus) {
  std::vector<std::string> kinds = kinds_of(gpus);
  std::sort(kinds.begin(), kinds.end());
  return listed(kinds, "and");
}

std::string users_of(const Gpu& gpu) {
  constexpr size_t kMost = 3;
  std::vector<std::string> users;
  for (const GpuProcess& process : gpu.processes) {
    if (users.size() == kMost) {
      users.push_back(fmt::format("{} more", gpu.processes.size() - kMost));
      break;
    }
    std::vector<std::string> facts;
    if (!process.name.empty()) facts.push_back(process.name);
    if (process.bytes > 0) facts.push_back(human_bytes(process.bytes));
    users.push_back(
        fmt::format("process {}{}", process.pid, facts.empty() ? "" : fmt::format(" ({})", fmt::join(facts, ", "))));
  }
  return listed(users, "and");
}

std::string gpu_fault(const GpuMachine& machine, const std::vector<VisibleGpu>& used) {
  std::string fault = fault_of_driver(machine);
  for (size_t i = 0; fault.empty() && i < used.size(); ++i) fault = fault_of_gpu(used[i]);
  return fault;
}

std::vector<std::string> gpu_warnings(const GpuMachine& machine, const std::vector<VisibleGpu>& used, bool bf16) {
  std::vector<std::string> warnings;
  if (std::string warning = warning_of_module(machine); !warning.empty()) warnings.push_back(std::move(warning));
  if (const auto kinds = kinds_of(used); kinds.size() > 1)
    warnings.push_back(fmt::format(
        "the ranks use different GPUs, {}: the slowest decides the speed, and the smallest how much fits; gpu_ids "
        "selects GPUs of one kind",
        listed(kinds, "and")));
  const char* const order = std::getenv("CUDA_DEVICE_ORDER");
  if (order != nullptr && std::string_view(order) != "PCI_BUS_ID" && kinds_of(visible_gpus(machine, {})).size() > 1)
    warnings.push_back(fmt::format(
        "CUDA_DEVICE_ORDER is {} on a machine with different GPUs: numbers may mean other GPUs to CUDA than to "
        "nvidia-smi, and than shown here; PCI_BUS_ID makes them agree",
        order));
  const auto emulates = [](const VisibleGpu& one) {
    return capability_of(*one.gpu) > 0 && capability_of(*one.gpu) < kLeastForBf16;
  };
  if (const auto first = std::find_if(used.begin(), used.end(), emulates); bf16 && first != used.end())
    warnings.push_back(
        fmt::format("mixed_precision bf16: {} has no bf16 instructions, so bf16 is emulated there; fp16 is "
                    "faster",
                    first->text()));
  for (const VisibleGpu& one : used) {
    const int64_t total = one.total_bytes(), taken = one.used_bytes();
    if (total <= 0 || static_cast<double>(taken) < kNoticed * static_cast<double>(total)) continue;
    const std::string users = users_of(*one.gpu);
    warnings.push_back(fmt::format("{}: {} of {} are in use{}", one.text(), human_bytes(taken), human_bytes(total),
                                   users.empty() ? " by other processes" : ", by " + users));
  }
  return warnings;
}

}  // namespace trainer
