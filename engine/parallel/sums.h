// Sums whose terms may be on a device: it is read once, at the end, because each read makes the host wait for all
// operators before it.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::parallel {

/// A sum of scalars, such as the losses of an update's micro-batches. Meta tensors count as 0.
class ScalarSum {
 public:
  void add(const at::Tensor& scalar);
  double value() const;

 private:
  double on_host_ = 0;
  at::Tensor on_device_;  // fp64; undefined if nothing was added
  bool is_dry_ = false;
};

/// For each list, the sum of the squares of all values of its tensors [n], fp32 on the CPU or any dtype on a device.
std::vector<double> sums_of_squares(const std::vector<std::vector<at::Tensor>>& lists);

}  // namespace trainer::parallel
