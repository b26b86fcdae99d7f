#include "models/nn/vocabulary.h"

#include <ATen/TensorOperators.h>

namespace trainer::nn {

void add_up(const TensorGroup& group, const at::Tensor& sums) {
  const at::Tensor own = sums.select(1, 0), largest = own.clone();
  group.max(largest);
  const at::Tensor others = sums.narrow(1, 1, RowSums::kNumbers - 1).contiguous();
  others.select(1, 0).mul_((own - largest).exp_());
  group.sum(others);
  sums.narrow(1, 1, RowSums::kNumbers - 1).copy_(others);
  own.copy_(largest);
}

}  // namespace trainer::nn
