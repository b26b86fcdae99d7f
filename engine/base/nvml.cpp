#include "engine/base/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include <fmt/format.h>

#include "engine/base/files.h"
#include "engine/base/nvml_types.h"
#include "engine/base/signals_blocked.h"

namespace trainer::nvml {
namespace {

/// The library, initialized. A function that it lacks gives kNotSupported.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_) status_ = call("nvmlInit_v2");
  }
  ~Library() {
    if (handle_ && status_ == kSuccess) call("nvmlShutdown");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool is_there() const { return handle_ != nullptr; }
  int status() const { return status_; }

  template <class... Args>
  int call(const char* name, Args... args) const {
    auto* const function = reinterpret_cast<int (*)(Args...)>(dlsym(handle_.get(), name));
    return function != nullptr ? function(args...) : kNotSupported;
  }

  std::string text_of(int result) const {
    auto* const function = reinterpret_cast<const char* (*)(int)>(dlsym(handle_.get(), "nvmlErrorString"));
    const char* const text = function != nullptr ? function(result) : nullptr;
    return text != nullptr ? text : fmt::format("error {}", result);
  }

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle_;
  int status_ = kNotFound;
};

std::string text(const Library& library, const char* name, Device device) {
  char buffer[kTextSize] = {};
  return library.call(name, device, &buffer[0], kTextSize) == kSuccess ? buffer : "";
}

std::string driver_version(const Library& library) {
  char buffer[kTextSize] = {};
  return library.call("nvmlSystemGetDriverVersion", &buffer[0], kTextSize) == kSuccess ? buffer : "";
}

/// sysfs writes "00000000:3B:00.0" as "0000:3b:00.0".
std::string sysfs_name(std::string bus_id) {
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto colon = bus_id.find(':');
  return colon == 8 && bus_id.starts_with("0000") ? bus_id.substr(4) : bus_id;
}

std::vector<GpuProcess> processes_of(const Library& library, Device device, const std::filesystem::path& root) {
  std::vector<ProcessInfo> infos(64);
  for (int tries = 0; tries < 3; ++tries) {  // processes may start between the calls
    auto count = static_cast<unsigned int>(infos.size());
    const int result = library.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, infos.data());
    if (result == kInsufficientSize) {
      infos.resize(2 * infos.size() + count);
      continue;
    }
    std::vector<GpuProcess> found;
    if (result != kSuccess) return found;
    for (const ProcessInfo& info : std::vector(infos.begin(), infos.begin() + std::min<size_t>(count, infos.size())))
      found.push_back({info.pid, info.used_memory == ~0ULL ? 0 : static_cast<int64_t>(info.used_memory),
                       first_line(root / fmt::format("proc/{}/comm", info.pid))});
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    return found;
  }
  return {};
}

std::vector<MigInstance> instances_of(const Library& library, Device device) {
  std::vector<MigInstance> found;
  unsigned int most = 0;
  if (library.call("nvmlDeviceGetMaxMigDeviceCount", device, &most) != kSuccess) return found;
  for (unsigned int i = 0; i < most; ++i) {
    Device part = nullptr;
    if (library.call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &part) != kSuccess) continue;  // an unused slot
    MigInstance instance{.uuid = text(library, "nvmlDeviceGetUUID", part)};
    unsigned int gpu_instance = 0, compute_instance = 0;
    if (library.call("nvmlDeviceGetGpuInstanceId", part, &gpu_instance) == kSuccess)
      instance.gpu_instance = gpu_instance;
    if (library.call("nvmlDeviceGetComputeInstanceId", part, &compute_instance) == kSuccess)
      instance.compute_instance = compute_instance;
    if (Memory memory{}; library.call("nvmlDeviceGetMemoryInfo", part, &memory) == kSuccess) {
      instance.total_bytes = static_cast<int64_t>(memory.total);
      instance.used_bytes = static_cast<int64_t>(memory.used);
    }
    found.push_back(std::move(instance));
  }
  return found;
}

Gpu gpu_of(const Library& library, Device device, const std::filesystem::path& root) {
  Gpu gpu{.uuid = text(library, "nvmlDeviceGetUUID", device)};
  if (const std::string name = text(library, "nvmlDeviceGetName", device); !name.empty()) gpu.name = name;
  if (PciInfo pci{}; library.call("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess)
    gpu.bus = sysfs_name(pci.bus_id);
  if (unsigned int minor = 0; library.call("nvmlDeviceGetMinorNumber", device, &minor) == kSuccess) gpu.minor = minor;
  if (Memory memory{}; library.call("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess) {
    gpu.total_bytes = static_cast<int64_t>(memory.total);
    gpu.used_bytes = static_cast<int64_t>(memory.used);
  }
  int major = 0, minor = 0;
  if (library.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == kSuccess)
    gpu.capability_major = major, gpu.capability_minor = minor;
  unsigned int mig = 0, pending = 0;
  gpu.mig = library.call("nvmlDeviceGetMigMode", device, &mig, &pending) == kSuccess && mig == 1;
  if (gpu.mig) gpu.instances = instances_of(library, device);
  gpu.processes = processes_of(library, device, root);
  return gpu;
}

}  // namespace

bool read(const std::string& path, const std::filesystem::path& root, GpuMachine& machine) {
  const AllSignalsBlocked for_its_threads;  // which may stay: a signal that one of them receives never reaches us
  const Library library(path);
  if (!library.is_there()) return false;
  unsigned int count = 0;
  int result = library.status();
  if (result == kSuccess) result = library.call("nvmlDeviceGetCount_v2", &count);
  if (result != kSuccess) {
    machine.trouble = library.text_of(result);
    return false;
  }
  machine.driver = driver_version(library);
  if (int cuda = 0; library.call("nvmlSystemGetCudaDriverVersion_v2", &cuda) == kSuccess) machine.cuda = cuda;
  for (unsigned int i = 0; i < count; ++i) {
    Device device = nullptr;
    result = library.call("nvmlDeviceGetHandleByIndex_v2", i, &device);
    if (result == kSuccess)
      machine.gpus.push_back(gpu_of(library, device, root));
    else
      machine.trouble = fmt::format("GPU {}: {}", i, library.text_of(result));  // CUDA doesn't show it either
  }
  return true;
}

}  // namespace trainer::nvml
