// Layers composed of libtorch operators, for devices that the CPU kernels of models/nn don't support.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

struct DeviceKernels;

// Note [Plain layers]
// A fused layer of models/nn accesses its tensors' memory directly, which only works on a CPU. So each has a reference
// layer in this folder, composed of operators that every device has, which never reads a value. The public functions
// choose between the two by runs_plain(). Both draw the same dropout masks and give the same results up to summation
// order. A dry run (the meta device) follows the device that it stands for: see DryDevice.
// TRAINER_PLAIN_LAYERS=1 in the environment selects the reference layers on the CPU too, and in every dry run, so that
// they are tested without another device (tests/models/plain_test.cpp, and the tests named plain.*).

/// Whether `x` is on a device other than the CPU, or in a dry run, stands for a tensor there.
bool on_device(const at::Tensor& x);

/// Whether a layer on `x` runs as its reference layer.
bool runs_reference(const at::Tensor& x);

/// Whether all layers do: during a ReferenceEverywhere, or with TRAINER_PLAIN_LAYERS=1.
bool forces_reference();

/// During its lifetime, every layer of the process runs as its reference layer.
class ReferenceEverywhere {
 public:
  ReferenceEverywhere();
  ~ReferenceEverywhere();
  ReferenceEverywhere(const ReferenceEverywhere&) = delete;
  ReferenceEverywhere& operator=(const ReferenceEverywhere&) = delete;
};

/// During its lifetime, this thread's dry runs stand for a device that has `kernels` (models/nn/kernel_table.h), which
/// are called with addresses that mean nothing; null: it has none, and runs the reference layers.
class DryDevice {
 public:
  /// `has_cudnn`: its libtorch runs attention by cuDNN where it suits (models/nn/device/attention_choice.h).
  DryDevice(const DeviceKernels* kernels, bool has_cudnn);
  ~DryDevice();
  DryDevice(const DryDevice&) = delete;
  DryDevice& operator=(const DryDevice&) = delete;

  /// Those of this thread's; null: they have none, or there is no such object.
  static const DeviceKernels* current_kernels();
  static bool has_cudnn();

 private:
  const DeviceKernels* kernels_;
  bool has_cudnn_;
  const DryDevice* outer_;
};

}  // namespace trainer::nn
