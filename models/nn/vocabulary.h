// A rank's slice of the vocabulary, and the sums that ranks with different slices combine for a loss.
#pragma once

#include <memory>

#include "models/nn/tensor_group.h"

namespace trainer::nn {

/// The range of tokens whose logits this rank has, and the size of the whole vocabulary.
struct Vocabulary {
  int64_t begin, whole;
  std::shared_ptr<const TensorGroup> group;  // the tensor-parallel group; null: this rank has all tokens

  /// The index of `label` among this rank's logits; -1: another rank has it.
  int64_t place(int64_t label, int64_t width) const {
    return label >= begin && label < begin + width ? label - begin : -1;
  }
};

/// The terms of a row's loss. All but the first are sums, over ranks too.
struct RowSums {
  // largest logit; sum of e^(x - largest); the label's logit; sum of logits
  double largest = 0, exp = 0, label = 0, all = 0;
  static constexpr int64_t kNumbers = 4;
};

/// Collective of the group. Replaces the sums of this rank's logits, [U, kNumbers] fp64, by those over all ranks.
void add_up(const TensorGroup& group, const at::Tensor& sums);

}  // namespace trainer::nn
