// The NVIDIA GPUs of this machine, for every part of the program: the wizard, flags, rules, `check`, `launch`, ranks.
//
// Note [Finding GPUs]
// NVIDIA's management library (NVML, a part of the driver) knows all about them, without creating a CUDA context. A
// container may lack it; then /dev says which GPUs there are, and /proc/driver/nvidia describes them. Containers keep
// the device numbers of their host: /dev/nvidia3 alone is one GPU, and CUDA's number 0. GPUs are numbered from 0 in the
// order of their PCI bus ids, as nvidia-smi numbers them; ranks set CUDA_DEVICE_ORDER so that CUDA does the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer {

/// A process that uses a GPU.
struct GpuProcess {
  int64_t pid = 0;
  int64_t bytes = 0;  // 0: unknown
  std::string name;   // "" if it belongs to another container
};

/// A part of a GPU in MIG mode. To CUDA it is a GPU of its own; a process sees at most one.
struct MigInstance {
  std::string uuid;  // "MIG-…"
  int64_t gpu_instance = 0, compute_instance = 0;
  int64_t total_bytes = 0, used_bytes = 0;
};

struct Gpu {
  int64_t number = 0;  // as nvidia-smi shows it
  std::string name = "NVIDIA GPU";
  std::string uuid{};                              // "GPU-…"; "" if unknown
  std::string bus{};                               // as sysfs writes it, "0000:3b:00.0"; "" if unknown
  int64_t minor = -1;                              // of /dev/nvidia3; -1 if unknown
  int64_t total_bytes = 0, used_bytes = 0;         // 0 if unknown
  int capability_major = 0, capability_minor = 0;  // compute capability; 0 if unknown
  int numa_node = -1;                              // -1: the machine has one node, or unknown
  bool mig = false;                                // MIG mode is on: only its instances can be used
  std::vector<MigInstance> instances{};
  std::vector<GpuProcess> processes{};
};

struct GpuMachine {
  std::vector<Gpu> gpus;
  std::string driver;   // its version, "580.65.06"; "" if unknown
  int cuda = 0;         // the newest CUDA that the driver supports, 13000 for 13.0; 0 if unknown
  std::string trouble;  // NVML's reason for not working; "" without one, and if there is no NVML
};

/// Reads them through the library at `nvml`, else from /dev, /proc and /sys under `root`. Throws nothing: what can't be
/// read is unknown.
GpuMachine read_gpus(const std::filesystem::path& root = "/", const std::string& nvml = "libnvidia-ml.so.1");

/// Those of this machine, read at the first call.
const GpuMachine& gpus_here();

/// The CPUs of a NUMA node, from /sys under `root`; empty if unknown.
std::vector<int> cpus_of_node(int node, const std::filesystem::path& root = "/");

/// "0-3,8" as {0, 1, 2, 3, 8}; empty if it is no such list.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace trainer
