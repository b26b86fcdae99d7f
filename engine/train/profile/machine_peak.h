// What this machine can do, measured.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace trainer::train {

struct MachinePeak {
  double flops = 0;  // of matrix products a second
  double bytes = 0;  // read and written a second by a copy
};

/// The best of several products of square matrices in `dtype`, and of several copies that no cache holds, on `device`
/// with the threads of this process. Takes about half a second.
MachinePeak measure_peak(at::ScalarType dtype, at::Device device);

}  // namespace trainer::train
