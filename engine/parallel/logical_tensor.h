#pragma once

#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/dist/mesh.h"
#include "models/nn/parameter.h"

namespace trainer::parallel {

/// A parameter of the whole model, and this rank's shard of it. Checkpoints, optimizers, clipping and export only use
/// this, so any strategy on any number of ranks can load what any other saved.
struct LogicalTensor {
  std::string name;                  // Hugging Face's name
  std::vector<std::string> aliases;  // names of tied weights
  nn::Shape shape;                   // of the whole tensor
  bool trainable = true;
  int64_t begin = 0, end = 0;  // this rank's shard: elements [begin, end) of the flattened slice
  bool replicated = false;     // every rank holds it whole
  at::Tensor value;            // [end - begin], fp32 when trainable; packed if `storage` is
  at::Tensor grad;             // [end - begin] fp32 after a backward; undefined when frozen
  nn::Storage storage;         // how the parameter is stored; an optimizer state in `value` may have another dtype
  nn::Part part;               // the tensor-parallel slice; without tensor parallelism, the whole tensor
  // If ranks share the memory of `value`: these, and its elements [first, last), which this rank updates for all.
  dist::Comm* sharers = nullptr;
  int64_t first = 0, last = 0;
  // If several ranks hold the same shard: how many, and the index of this rank among them. Only the first one
  // contributes.
  int64_t copies = 1, copy = 0;

  /// `value`; decoded to fp32 if it is packed.
  at::Tensor values() const { return storage.packed ? storage.decode(value, at::kFloat, begin) : value; }
  /// Of a tensor that is laid out like `value`, the part that this rank updates.
  at::Tensor updated_part(const at::Tensor& of) const { return sharers ? of.narrow(0, first, last - first) : of; }
  int64_t numel() const {
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    return n;
  }
};

/// The tensor of `parameter`, of which this rank holds elements [begin, end), without value and gradient. The ranks of
/// `replicas` hold the same elements; so do the other pipeline stages `stages`, if there are several, and the
/// tensor-parallel ranks, if these don't split the parameter.
LogicalTensor logical_tensor_of(const nn::Parameter& parameter, int64_t begin, int64_t end, const dist::Comm& replicas,
                                const std::set<int>& stages, const dist::Mesh& mesh);

}  // namespace trainer::parallel
