// Our declarations of NVML against NVIDIA's own, where a CUDA toolkit (or the package nvidia-nvml-dev) has them.
#include "engine/base/nvml_types.h"

#include <cstddef>

#include <gtest/gtest.h>

#if __has_include(<nvml.h>)
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

namespace trainer::nvml {
namespace {

static_assert(kSuccess == int{NVML_SUCCESS} && kNotSupported == int{NVML_ERROR_NOT_SUPPORTED} &&
              kNotFound == int{NVML_ERROR_NOT_FOUND} && kInsufficientSize == int{NVML_ERROR_INSUFFICIENT_SIZE} &&
              kDriverNotLoaded == int{NVML_ERROR_DRIVER_NOT_LOADED} &&
              kVersionMismatch == int{NVML_ERROR_LIB_RM_VERSION_MISMATCH});
static_assert(kTextSize >= NVML_DEVICE_UUID_V2_BUFFER_SIZE && kTextSize >= NVML_DEVICE_NAME_V2_BUFFER_SIZE &&
              kTextSize >= NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);

#define SAME_MEMBER(Ours, our, Theirs, their) \
  static_assert(offsetof(Ours, our) == offsetof(Theirs, their) && sizeof(Ours::our) == sizeof(Theirs::their))
static_assert(sizeof(Memory) == sizeof(nvmlMemory_t));
SAME_MEMBER(Memory, total, nvmlMemory_t, total);
SAME_MEMBER(Memory, free, nvmlMemory_t, free);
SAME_MEMBER(Memory, used, nvmlMemory_t, used);
static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t));
SAME_MEMBER(PciInfo, bus_id, nvmlPciInfo_t, busId);
SAME_MEMBER(PciInfo, domain, nvmlPciInfo_t, domain);
static_assert(sizeof(ProcessInfo) == sizeof(nvmlProcessInfo_t));
SAME_MEMBER(ProcessInfo, pid, nvmlProcessInfo_t, pid);
SAME_MEMBER(ProcessInfo, used_memory, nvmlProcessInfo_t, usedGpuMemory);

/// Whether a call with `Ours` is one of `function`: the same number of arguments, of the same sizes.
template <class... Ours, class... Theirs>
constexpr bool takes(nvmlReturn_t (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs))
    return ((sizeof(Ours) == sizeof(Theirs)) && ...) && sizeof(nvmlReturn_t) == sizeof(int);
  else
    return false;
}
static_assert(takes<>(nvmlInit_v2) && takes<>(nvmlShutdown) && takes<char*, unsigned>(nvmlSystemGetDriverVersion) &&
              takes<int*>(nvmlSystemGetCudaDriverVersion_v2) && takes<unsigned*>(nvmlDeviceGetCount_v2) &&
              takes<unsigned, Device*>(nvmlDeviceGetHandleByIndex_v2) &&
              takes<Device, char*, unsigned>(nvmlDeviceGetName) && takes<Device, char*, unsigned>(nvmlDeviceGetUUID) &&
              takes<Device, PciInfo*>(nvmlDeviceGetPciInfo_v3) && takes<Device, unsigned*>(nvmlDeviceGetMinorNumber) &&
              takes<Device, Memory*>(nvmlDeviceGetMemoryInfo) &&
              takes<Device, int*, int*>(nvmlDeviceGetCudaComputeCapability) &&
              takes<Device, unsigned*, ProcessInfo*>(nvmlDeviceGetComputeRunningProcesses_v3) &&
              takes<Device, unsigned*, unsigned*>(nvmlDeviceGetMigMode) &&
              takes<Device, unsigned*>(nvmlDeviceGetMaxMigDeviceCount) &&
              takes<Device, unsigned, Device*>(nvmlDeviceGetMigDeviceHandleByIndex) &&
              takes<Device, unsigned*>(nvmlDeviceGetGpuInstanceId) &&
              takes<Device, unsigned*>(nvmlDeviceGetComputeInstanceId));

TEST(NvmlTypes, AreThoseOfTheToolkit) {
  SUCCEED() << "checked by the compiler";
}

}  // namespace
}  // namespace trainer::nvml
#else
TEST(NvmlTypes, AreThoseOfTheToolkit) {
  GTEST_SKIP() << "nvml.h was not found when this was compiled (CMake's NVML_INCLUDE)";
}
#endif
