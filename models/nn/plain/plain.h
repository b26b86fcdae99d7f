// Layers as compositions of libtorch's operators: for devices that the CPU kernels of models/nn cannot reach.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

// Note [Plain layers]
// A fused layer of models/nn reads and writes its tensors' memory, which only a CPU can. So each has a plain twin in
// this folder, of operators that every device has, which never reads a value; runs_plain() is where one is chosen, at
// the top of the public function. Twins draw the same dropout masks and give the same numbers up to the order of sums.
// A dry run (the meta device) takes the way of the device that it stands for: see DryDevice.
// TRAINER_PLAIN_LAYERS=1 in the environment takes them on the CPU too, and in every dry run: so their numbers are
// checked where there is no other device (tests/models/plain_test.cpp, and the tests named plain.*).

/// Whether a layer on `x` runs as its plain twin.
bool runs_plain(const at::Tensor& x);

/// While it lives, every layer of the process runs plain.
class PlainEverywhere {
 public:
  PlainEverywhere();
  ~PlainEverywhere();
  PlainEverywhere(const PlainEverywhere&) = delete;
  PlainEverywhere& operator=(const PlainEverywhere&) = delete;
};

/// While it lives, this thread's dry runs stand for a device that the kernels cannot reach, so layers run plain in
/// them.
class DryDevice {
 public:
  DryDevice();
  ~DryDevice();
  DryDevice(const DryDevice&) = delete;
  DryDevice& operator=(const DryDevice&) = delete;
};

}  // namespace trainer::nn
