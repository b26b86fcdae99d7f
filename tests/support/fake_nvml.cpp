// A libnvidia-ml.so.1 for machines without GPUs: shows what the file $FAKE_NVML describes, in lines whose fields are
// separated by '|'. "init|RESULT", "driver|VERSION|CUDA", "gpu|NAME|UUID|BUS ID|MINOR|CAPABILITY|TOTAL|USED",
// and about the GPU before them "lost|RESULT", "process|PID|BYTES",
// "mig|UUID|GPU INSTANCE|COMPUTE INSTANCE|TOTAL|USED".
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/nvml_types.h"

namespace trainer::nvml {

struct DeviceHandle {
  std::string name, uuid, bus;
  unsigned int minor = 0, gpu_instance = 0, compute_instance = 0;
  int major_capability = 0, minor_capability = 0, lost = kSuccess;
  Memory memory{};
  std::vector<ProcessInfo> processes;
  std::vector<std::unique_ptr<DeviceHandle>> instances;
};

namespace {

struct Shown {
  int init = kSuccess, cuda = 0;
  std::string driver;
  std::vector<std::unique_ptr<DeviceHandle>> gpus;
};
Shown shown;

Memory memory_of(const std::string& total, const std::string& used) {
  const unsigned long long all = std::stoull(total), taken = std::stoull(used);
  return {all, all - taken, taken};
}

void take(const std::vector<std::string>& f) {
  if (f[0] == "init") {
    shown.init = std::stoi(f[1]);
  } else if (f[0] == "driver") {
    shown.driver = f[1], shown.cuda = std::stoi(f[2]);
  } else if (f[0] == "gpu") {
    auto gpu = std::make_unique<DeviceHandle>();
    gpu->name = f[1], gpu->uuid = f[2], gpu->bus = f[3], gpu->minor = static_cast<unsigned>(std::stoul(f[4]));
    std::sscanf(f[5].c_str(), "%d.%d", &gpu->major_capability, &gpu->minor_capability);
    gpu->memory = memory_of(f[6], f[7]);
    shown.gpus.push_back(std::move(gpu));
  } else if (f[0] == "lost") {
    shown.gpus.back()->lost = std::stoi(f[1]);
  } else if (f[0] == "process") {
    shown.gpus.back()->processes.push_back({static_cast<unsigned>(std::stoul(f[1])), std::stoull(f[2]), ~0U, ~0U});
  } else if (f[0] == "mig") {
    auto part = std::make_unique<DeviceHandle>();
    part->uuid = f[1], part->memory = memory_of(f[4], f[5]);
    part->gpu_instance = static_cast<unsigned>(std::stoul(f[2]));
    part->compute_instance = static_cast<unsigned>(std::stoul(f[3]));
    shown.gpus.back()->instances.push_back(std::move(part));
  }
}

int put(const std::string& text, char* buffer, unsigned int length) {
  if (text.size() >= length) return kInsufficientSize;
  std::strcpy(buffer, text.c_str());
  return kSuccess;
}

}  // namespace
}  // namespace trainer::nvml

using namespace trainer::nvml;

extern "C" {

int nvmlInit_v2() {
  // A thread of the library's own, which outlives nvmlShutdown.
  if (std::getenv("FAKE_NVML_THREAD") != nullptr)
    std::thread([] {
      while (true) pause();
    }).detach();
  shown = {};
  const char* const file = std::getenv("FAKE_NVML");
  std::ifstream in(file != nullptr ? file : "");
  if (!in) return kDriverNotLoaded;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::istringstream parts(line);
    for (std::string field; std::getline(parts, field, '|');) fields.push_back(field);
    if (!fields.empty()) take(fields);
  }
  return shown.init;
}
int nvmlInit() {  // torch's
  return nvmlInit_v2();
}
int nvmlInitWithFlags(unsigned int) {  // NVIDIA's Python package's
  return nvmlInit_v2();
}
int nvmlShutdown() {
  return kSuccess;
}
const char* nvmlErrorString(int result) {
  if (result == kVersionMismatch) return "Driver/library version mismatch";
  if (result == kDriverNotLoaded) return "Driver Not Loaded";
  return "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return put(shown.driver, version, length);
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = shown.cuda;
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = static_cast<unsigned int>(shown.gpus.size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  if (index >= shown.gpus.size()) return kNotFound;
  *device = shown.gpus[index].get();
  return (*device)->lost;
}
int nvmlDeviceGetName(Device device, char* name, unsigned int length) {
  return put(device->name, name, length);
}
int nvmlDeviceGetUUID(Device device, char* uuid, unsigned int length) {
  return put(device->uuid, uuid, length);
}
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  return put(device->bus, pci->bus_id, sizeof pci->bus_id);
}
int nvmlDeviceGetMinorNumber(Device device, unsigned int* minor) {
  *minor = device->minor;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  *memory = device->memory;
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  *major = device->major_capability, *minor = device->minor_capability;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int* count, ProcessInfo* infos) {
  const auto room = *count;
  *count = static_cast<unsigned int>(device->processes.size());
  if (device->processes.size() > room) return kInsufficientSize;
  for (const ProcessInfo& process : device->processes) *infos++ = process;
  return kSuccess;
}
int nvmlDeviceGetMigMode(Device device, unsigned int* current, unsigned int* pending) {
  *current = *pending = device->instances.empty() ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(Device, unsigned int* count) {
  *count = 7;
  return kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned int index, Device* part) {
  if (index >= device->instances.size()) return kNotFound;
  *part = device->instances[index].get();
  return kSuccess;
}
int nvmlDeviceGetGpuInstanceId(Device part, unsigned int* id) {
  *id = part->gpu_instance;
  return kSuccess;
}
int nvmlDeviceGetComputeInstanceId(Device part, unsigned int* id) {
  *id = part->compute_instance;
  return kSuccess;
}

}  // extern "C"
