#include "engine/parallel/whole_stage_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "engine/parallel/tensor_parallel.h"

namespace trainer::parallel {

void WholeStageWeights::load(const WeightSource& source) {
  const auto options = at::TensorOptions(mesh_.world().device());
  int64_t trained = 0;
  for (Parameter& one : parameters_) {
    nn::Parameter& p = *one.parameter;
    one.dtype = p.trainable ? at::kFloat : precision_.frozen(p, source.dtype(p));
    if (!held(one)) continue;
    at::Tensor value = at::empty(p.shape, options.dtype(one.dtype));
    source.read_part(p, 0, p.numel(), value.view(-1));
    p.value = value.set_requires_grad(p.trainable);
    if (p.trainable) trained += p.numel();
  }
  gradients_ = at::zeros({trained}, options.dtype(at::kFloat));
  int64_t at = 0;
  for (const Parameter& one : parameters_) {
    nn::Parameter& p = *one.parameter;
    if (!p.trainable || !held(one)) continue;
    p.value.mutable_grad() = gradients_.narrow(0, at, p.numel()).view(p.shape);
    at += p.numel();
  }
}

std::vector<LogicalTensor> WholeStageWeights::held_tensors() {
  const dist::Comm &data = mesh_.data(), &tensor_ranks = mesh_.tensor();
  std::vector<LogicalTensor> all;
  for (const Parameter& one : parameters_) {
    if (!held(one)) continue;
    const nn::Parameter& p = *one.parameter;
    LogicalTensor tensor{p.name, p.aliases, p.whole_shape(), p.trainable, 0, p.numel()};
    tensor.part = p.part;
    tensor.value = p.value.detach().view(-1);
    if (p.trainable) tensor.grad = p.value.grad().view(-1);
    tensor.copies = data.size();
    tensor.copy = data.rank();
    if (p.part.whole()) {  // replicated over the tensor-parallel ranks
      tensor.copies *= tensor_ranks.size();
      tensor.copy = tensor.copy * tensor_ranks.size() + tensor_ranks.rank();
    }
    all.push_back(std::move(tensor));
  }
  return all;
}

/// Sums over the data ranks; partial gradients also over the tensor-parallel ranks.
void WholeStageWeights::reduce_in_stage() {
  if (gradients_.numel() == 0) return;
  if (mesh_.data().size() > 1) mesh_.data().all_reduce(gradients_);
  std::vector<at::Tensor> shares;
  for (const Parameter& one : parameters_)
    if (one.parameter->trainable && one.parameter->partial_grad && held(one))
      shares.push_back(one.parameter->value.grad());
  sum_partial_grads(shares, mesh_.tensor());
}

}  // namespace trainer::parallel
