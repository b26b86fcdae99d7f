// A weight of a model: what it is (name, shape, how it starts), apart from where its values live.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/part.h"

namespace trainer::nn {

/// How a weight starts when no file holds it.
struct Init {
  enum Kind { kConstant, kNormal, kUniform } kind = kConstant;
  double scale = 0;  // the constant, the standard deviation, or the bound of U(-scale, scale)
};

/// One weight. Models are built without values, so that a rank may hold only its piece: `value` is set by whoever
/// spreads the model over ranks (engine/parallel), and is what the layers compute with.
struct Parameter {
  Shape shape;  // of what this rank computes with
  Init init;
  bool linear = false;  // a linear layer's weight: computed with in the run's compute dtype, all others in fp32
  bool trainable = true;
  bool fp32_under_fp16 = false;      // a linear layer's whose results overflow fp16: computed with in fp32 there
  std::string name;                  // full, Hugging Face's; the first one in the order of the tree
  std::vector<std::string> aliases;  // further names of the same weight (tied weights)
  std::string copy_of;               // the weight whose values it starts with, when a tied one became its own
  at::Tensor value;
  Part part;            // which part of Hugging Face's tensor it is
  Shape of_shape;       // that one's shape, when it is not all of it
  bool summed = false;  // its gradient is a share of a sum over the ranks that share its layer

  /// Keeps only `its_part` of this weight, which was whole.
  void keep(const Part& its_part) {
    of_shape = shape;
    part = its_part;
    shape = part_shape(part, of_shape);
  }
  /// The dtype that it is computed with where linear layers compute in `compute`.
  at::ScalarType computed_in(at::ScalarType compute) const {
    return fp32_under_fp16 && compute == at::kHalf ? at::kFloat : compute;
  }
  const Shape& whole_shape() const { return part.whole() ? shape : of_shape; }
  int64_t numel() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};
using ParameterPtr = std::shared_ptr<Parameter>;

}  // namespace trainer::nn
