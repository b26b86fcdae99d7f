// What we use of the C interface of libnvidia-ml.so.1. NVIDIA keeps it binary compatible, so no header of theirs is
// needed to build; tests/base/nvml_types_test.cpp compares it with nvml.h where a CUDA toolkit has it.
#pragma once

namespace trainer::nvml {

using Device = struct DeviceHandle*;

enum Result : int {
  kSuccess = 0,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kVersionMismatch = 18,
};

struct Memory {
  unsigned long long total, free, used;  // bytes
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_sub_system_id;
  char bus_id[32];  // "00000000:3B:00.0"
};

struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_memory;  // bytes; all bits set: unknown
  unsigned int gpu_instance, compute_instance;
};

constexpr unsigned int kTextSize = 96;  // enough for names, UUIDs and versions

}  // namespace trainer::nvml
