// A weight of a model: its name, shape and initialization, separate from the storage of its values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/part.h"
#include "models/nn/storage.h"

namespace trainer::nn {

/// How a weight is initialized when no file holds it.
struct Init {
  enum Kind { kConstant, kNormal, kUniform } kind = kConstant;
  double scale = 0;  // the constant, the standard deviation, or the bound of U(-scale, scale)
};

/// The dimensions that are the layer's inputs and outputs; for an embedding its tokens and its width; -1: none. Of a
/// weight that an embedding and a head share, the embedding's.
struct Axes {
  int64_t in = -1, out = -1;
};

/// One weight. Models are built without values, so that a rank may hold only its shard: engine/parallel, which
/// distributes the model, sets `value`, the tensor that the layers compute with.
struct Parameter {
  Shape shape;  // of the tensor that this rank computes with
  Init init;
  Axes axes;
  bool linear = false;  // a linear layer's weight, used in the run's compute dtype; all others are used in fp32
  bool trainable = true;
  bool may_pack = true;              // false: stays unpacked although it could be packed
  bool fp32_under_fp16 = false;      // of a linear layer whose output overflows fp16: under fp16, it runs in fp32
  std::string name;                  // Hugging Face's full name; the first one in tree order
  std::vector<std::string> aliases;  // other names of the same weight (tied weights)
  std::string copy_of;               // if untied: the weight it starts as a copy of
  at::Tensor value;                  // packed if `storage` is, else in any float dtype: layers read it with values()
  Storage storage;                   // of the values that are kept, which a gathered copy may be cast from
  Part part;                         // which slice of Hugging Face's tensor it is
  Shape of_shape;                    // the whole tensor's shape, if this is a slice
  bool partial_grad = false;         // its gradient is partial: to be summed over the tensor-parallel ranks
  bool stale_grad = false;           // its gradient's values are of an earlier update: the next ones replace them

  /// Keeps only the slice `its_part` of this weight, which was whole.
  void keep(const Part& its_part) {
    of_shape = shape;
    part = its_part;
    shape = part_shape(part, of_shape);
  }
  /// The dtype this weight is used in when linear layers compute in `compute`.
  at::ScalarType computed_in(at::ScalarType compute) const {
    return fp32_under_fp16 && compute == at::kHalf ? at::kFloat : compute;
  }
  /// The value in `dtype`: decoded if it is packed, itself if it has that dtype.
  at::Tensor values(at::ScalarType dtype) const { return storage.decode(value, dtype); }
  /// Whether it can be packed: the frozen matrix of a linear layer.
  bool packable() const { return linear && may_pack && !trainable && axes.in >= 0 && axes.out >= 0; }
  const Shape& whole_shape() const { return part.whole() ? shape : of_shape; }
  int64_t numel() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};
using ParameterPtr = std::shared_ptr<Parameter>;

}  // namespace trainer::nn
