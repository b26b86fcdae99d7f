// What this machine can do, measured.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace trainer::train {

struct MachinePeak {
  double flops = 0;  // of matrix products a second
  double bytes = 0;  // read and written a second by a copy
};

/// FLOP/s of matrix products: the best of several of square matrices in `dtype`, on `device` with the threads of this
/// process. Takes a quarter of a second.
double measure_products(at::ScalarType dtype, at::Device device);

/// In addition, the best of several copies that no cache holds. Takes about half a second.
MachinePeak measure_peak(at::ScalarType dtype, at::Device device);

}  // namespace trainer::train
