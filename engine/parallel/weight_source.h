#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/parameter.h"

namespace trainer::parallel {

/// The source of initial weights: a model folder, a seed, an adapter folder.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// The dtype in which the source stores the weight.
  virtual at::ScalarType dtype(const nn::Parameter& parameter) const = 0;
  /// Writes elements [begin, end) of the whole flattened weight into `out` [end - begin], converting to its dtype.
  virtual void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const = 0;

  /// The same for elements [begin, end) of this rank's slice (parameter.part).
  void read_part(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
    for (const nn::Run& run : nn::runs_of(parameter.part, parameter.whole_shape(), begin, end))
      read(parameter, run.whole, run.whole + run.count, out.narrow(0, run.part - begin, run.count));
  }
};

}  // namespace trainer::parallel
