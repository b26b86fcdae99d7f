#pragma once

#include "models/nn/linear.h"
#include "models/nn/tensor_group.h"

namespace trainer::nn {

/// What happens to the output of a head on its way to the loss.
struct HeadLoss {
  double soft_cap = 0;                            // of the logits; 0: none
  const PartitionedVocabulary* shared = nullptr;  // null: this rank has the whole vocabulary
  int64_t rows_of_chunk = 0;                      // at most; 0: chosen (Note [Chunks of the loss])
};

/// cross_entropy_sum of the logits that `head` computes for x [U, D], with pass.label_smoothing and pass.rows_to_loss.
/// The logits of all rows never exist at once, unless the head has an adapter or a bias. Labels [U] as there; ignored
/// rows are left out. Collective of the tensor-parallel ranks.
at::Tensor linear_cross_entropy_sum(Linear& head, const Rows& x, const at::Tensor& labels, const Pass& pass,
                                    const HeadLoss& options = {});

}  // namespace trainer::nn
