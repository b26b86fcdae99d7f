#include "engine/parallel/replicated_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "engine/parallel/tensor_parallel.h"

namespace trainer::parallel {

ReplicatedModel::ReplicatedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                                 const dist::GradientExchange& exchange)
    : ParallelModel(std::move(model), std::move(mesh), precision), exchange_(exchange) {}

void ReplicatedModel::load_values(const WeightSource& source) {
  std::vector<at::Tensor> trained;
  for (const nn::ParameterPtr& p : model().all_parameters()) {
    const auto dtype = p->trainable ? at::kFloat : precision().frozen(*p, source.dtype(*p));
    at::Tensor value = at::empty(p->shape, at::TensorOptions(dtype).device(comm().device()));
    source.read_part(*p, 0, p->numel(), value.view(-1));
    p->value = value.set_requires_grad(p->trainable);
    if (p->trainable) trained.push_back(p->value);
  }
  for (at::Tensor& value : trained) value.mutable_grad() = at::zeros_like(value);
  // The reducer makes these gradients views of its buckets. (Gradients that don't exist yet would be allocated next
  // to the buckets in the first update with accumulation: twice the memory.)
  const bool dry = comm().device() == at::kMeta;
  if (mesh().tokens().size() > 1 && exchanges_gradients() && !trained.empty() && !dry)
    reducer_ = std::make_unique<dist::BucketReducer>(trained, mesh().tokens(), exchange_);
}

std::vector<LogicalTensor> ReplicatedModel::list_tensors() {
  std::vector<LogicalTensor> all;
  for (const nn::ParameterPtr& p : model().all_parameters()) {
    LogicalTensor tensor{p->name, p->aliases, p->whole_shape(), p->trainable, 0, p->numel()};
    tensor.value = p->value.detach().view(-1);
    tensor.part = p->part;
    tensor.copies = mesh().tokens().size();
    tensor.copy = mesh().tokens().rank();
    if (p->part.whole()) {  // replicated over the tensor-parallel ranks
      tensor.copies *= mesh().tensor().size();
      tensor.copy = tensor.copy * mesh().tensor().size() + mesh().tensor().rank();
    }
    tensor.replicated = tensor.copies == comm().size();
    if (p->value.grad().defined()) tensor.grad = p->value.grad().view(-1);
    all.push_back(std::move(tensor));
  }
  return all;
}

void ReplicatedModel::begin_backward(const at::Tensor& loss, bool last) {
  if (last && reducer_) reducer_->reduce_next_backward(loss);
}

void ReplicatedModel::end_backward(bool last) {
  if (!last) return;
  std::vector<at::Tensor> shares;  // already reduced over the data ranks
  for (const nn::ParameterPtr& p : model().all_parameters())
    if (p->trainable && p->partial_grad && p->value.grad().defined()) shares.push_back(p->value.grad());
  sum_partial_grads(shares, mesh().tensor());
}

}  // namespace trainer::parallel
