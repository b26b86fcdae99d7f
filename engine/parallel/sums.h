// Sums whose terms may be on a device: it is read once, at the end, because each read makes the host wait for all
// operators before it.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::parallel {

/// A sum of scalars, such as the losses of an update's micro-batches, or of squares.
class ScalarSum {
 public:
  /// Meta tensors count as 0.
  void add(const at::Tensor& scalar);
  /// The squares of all values of tensors [n], fp32 on the CPU or any dtype on a device. In a dry run they count as
  /// 1e12, a norm that is clipped.
  void add_squares(const std::vector<at::Tensor>& tensors);

  bool on_device() const { return on_device_.defined(); }

  friend std::vector<double> values_of(const std::vector<ScalarSum>& sums);

 private:
  void add_on_device(const at::Tensor& scalar);

  double on_host_ = 0;
  at::Tensor on_device_;  // fp64; undefined if nothing was added there
};

/// The values of sums; those on a device with one read.
std::vector<double> values_of(const std::vector<ScalarSum>& sums);

}  // namespace trainer::parallel
