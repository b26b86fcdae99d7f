#include "models/nn/tensor_group.h"

#include <ATen/ops/zeros.h>

namespace trainer::nn {

at::Tensor PartitionedVocabulary::gather(const at::Tensor& logits) const {
  const at::Tensor all = at::zeros({logits.size(0), whole}, logits.options());
  all.narrow(1, mine.begin, logits.size(1)).copy_(logits);
  group->sum(all);
  return all;
}

}  // namespace trainer::nn
