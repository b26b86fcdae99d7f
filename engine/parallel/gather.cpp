#include "engine/parallel/gather.h"

#include <ATen/ops/zeros.h>

namespace trainer::parallel {

at::Tensor gather(const LogicalTensor& tensor, dist::Comm& comm) {
  const at::Tensor mine = tensor.values();
  const nn::Shape shape = tensor.storage.order(tensor.shape);
  const auto turned = [&](const at::Tensor& whole) {
    return tensor.storage.transposed ? whole.t().contiguous() : whole;
  };
  if (tensor.replicated) return turned(mine.view(shape));
  const at::Tensor whole = at::zeros({tensor.numel()}, mine.options());
  if (tensor.copy == 0)
    for (const nn::Run& run : nn::runs_of(tensor.storage.order(tensor.part), shape, tensor.begin, tensor.end))
      whole.narrow(0, run.whole, run.count).copy_(mine.narrow(0, run.part - tensor.begin, run.count));
  // Sum as integers: all other ranks' parts are zero, and floats keep every bit (-0.0 + 0.0 would lose its sign).
  comm.all_reduce(whole.view(whole.element_size() < 4 ? at::kByte : at::kInt));
  return turned(whole.view(shape));
}

void copy_shard(const at::Tensor& whole, const LogicalTensor& tensor, const at::Tensor& shard) {
  const at::Tensor flat = whole.reshape({-1});
  for (const nn::Run& run : nn::runs_of(tensor.part, tensor.shape, tensor.begin, tensor.end))
    shard.narrow(0, run.part - tensor.begin, run.count).copy_(flat.narrow(0, run.whole, run.count));
}

}  // namespace trainer::parallel
