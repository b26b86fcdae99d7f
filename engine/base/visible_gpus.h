// The GPUs that CUDA shows to a process, as CUDA_VISIBLE_DEVICES selects them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/gpus.h"

namespace trainer {

/// A GPU or, in MIG mode, a part of one. Refers to the GpuMachine that it was taken from.
struct VisibleGpu {
  const Gpu* gpu = nullptr;
  const MigInstance* instance = nullptr;

  /// The name that selects it in CUDA_VISIBLE_DEVICES, whatever else is selected: its UUID, or its number.
  std::string id() const;
  /// "GPU 0 (NVIDIA H100 80GB HBM3, 79.6 GiB)", or "MIG-3f… of GPU 0 (…, 19.5 GiB)".
  std::string text() const;
  int64_t total_bytes() const { return instance != nullptr ? instance->total_bytes : gpu->total_bytes; }
  int64_t used_bytes() const { return instance != nullptr ? instance->used_bytes : gpu->used_bytes; }
  bool operator==(const VisibleGpu&) const = default;
};

/// Those that `variable`, a value of CUDA_VISIBLE_DEVICES, selects, in its order; all without a value. Reads it as CUDA
/// does: numbers, or UUIDs ("GPU-…", "MIG-…", "MIG-GPU-…/1/0"), of which an unambiguous beginning is enough. The first
/// item that selects nothing ends the list; an item given twice makes it empty. A GPU in MIG mode stands for its
/// instances: CUDA shows only the first of them to a process, so every rank gets its own CUDA_VISIBLE_DEVICES.
std::vector<VisibleGpu> visible_gpus(const GpuMachine& machine, const std::optional<std::string>& variable);

/// CUDA_VISIBLE_DEVICES of this process, where it is set.
std::optional<std::string> cuda_visible_devices();

/// Whether ranks that use `gpus` have to see one each, because a process can use only one MIG instance.
bool has_instances(const std::vector<VisibleGpu>& gpus);

}  // namespace trainer
