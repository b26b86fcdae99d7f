#include "engine/parallel/whole_weights.h"

#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/free_memory.h"
#include "engine/parallel/tensor_parallel.h"
#include "models/nn/weight_gradient.h"

namespace trainer::parallel {

WholeWeights::WholeWeights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
                           const Precision& precision, Sums when, const dist::GradientExchange& exchange,
                           bool by_element, const WeightSource& source)
    : Weights(model, chunks, mesh, precision, source) {
  for (const Parameter& one : parameters_)
    if (held(one) && one.parameter->trainable) trained_.push_back(one.parameter);
  const bool alone = mesh.tokens().size() == mesh.world().size();  // no other axis
  if (by_element && alone && exchange.is_exact() && when == Sums::kInBackward)
    shared_ = share_values(trained_, mesh.tokens());
  const bool in_place = prefers_in_place();
  for (const Parameter& one : parameters_)
    if (held(one)) load(*one.parameter, source, in_place);
  if (!shared_.empty()) mesh.tokens().barrier();
  add_gradients(when, exchange);
  for (const nn::ParameterPtr& p : trained_) {
    // The reducer sends the gradients of weights that this rank doesn't use as they are.
    if (reducer_ || !nn::writes_gradient(p->value)) {
      zeroed_.push_back(p->value.grad());
    } else {
      nn::allow_stale_gradient(p);
      replaced_.push_back(p);
    }
  }
  std::vector<LogicalTensor> tensors;
  for (const Parameter& one : parameters_) {
    if (!held(one)) continue;
    tensors.push_back(whole_tensor(one));
    const auto shared = shared_.find(one.parameter.get());
    if (shared == shared_.end()) continue;
    tensors.back().sharers = &mesh.tokens();
    tensors.back().first = shared->second.first;
    tensors.back().last = shared->second.last;
  }
  list(std::move(tensors), mesh.world().device());
}

bool WholeWeights::prefers_in_place() const {
  if (!mesh_.world().device().is_cpu()) return false;
  if (trains()) return true;
  int64_t bytes = 0;
  for (const Parameter& one : parameters_)
    if (held(one)) bytes += one.parameter->storage.bytes(one.parameter->numel());
  return bytes > free_memory() / mesh_.world().size();
}

void WholeWeights::load(nn::Parameter& p, const WeightSource& source, bool in_place) {
  if (in_place && !p.trainable && use_in_place(p, source)) return;
  if (const auto shared = shared_.find(&p); shared != shared_.end()) {
    const auto& [value, first, last] = shared->second;
    if (last > first) source.read_part(p, first, last, value.view(-1).narrow(0, first, last - first));
    p.value = value;
    p.value.set_requires_grad(true);
    return;
  }
  const at::Tensor value =
      at::empty(p.storage.shape(p.shape), at::TensorOptions(p.storage.dtype).device(mesh_.world().device()));
  source.read_part(p, 0, p.numel(), value.view(-1));
  p.value = value.set_requires_grad(p.trainable);
}

void WholeWeights::concatenate_gradients() {
  int64_t total = 0, at = 0;
  for (const nn::ParameterPtr& p : trained_) total += p->numel();
  gradients_ = at::zeros({total}, at::TensorOptions(mesh_.world().device()).dtype(at::kFloat));
  for (const nn::ParameterPtr& p : trained_) {
    p->value.mutable_grad() = gradients_.narrow(0, at, p->numel()).view(p->shape);
    at += p->numel();
  }
}

void WholeWeights::add_gradients(Sums when, const dist::GradientExchange& exchange) {
  const bool after = when == Sums::kAfterBackward && mesh_.tokens().size() > 1;
  if (mesh_.pipeline().size() > 1 || after) return concatenate_gradients();
  std::vector<at::Tensor> values;
  for (const nn::ParameterPtr& p : trained_) values.push_back(p->value);
  const bool exchanges = mesh_.tokens().size() > 1 && when == Sums::kInBackward && !values.empty();
  if (exchanges && exchange.is_exact()) {
    buckets_ = std::make_unique<dist::SharedBuckets>(values, mesh_.tokens(), exchange.bucket_bytes());
    if (buckets_->defined()) return;
    buckets_.reset();
  }
  for (const at::Tensor& value : values) value.mutable_grad() = at::zeros_like(value);
  // The reducer makes these gradients views of its buckets. (Gradients that don't exist yet would be allocated next
  // to the buckets in the first update with accumulation: twice the memory.)
  if (exchanges) reducer_ = std::make_unique<dist::BucketReducer>(std::move(values), mesh_.tokens(), exchange);
}

void WholeWeights::reduce_in_backward(const at::Tensor& loss) {
  if (reducer_) reducer_->reduce_next_backward(loss);
}

void WholeWeights::drop_gradients() {
  for (const nn::ParameterPtr& p : replaced_) p->stale_grad = true;
  if (!zeroed_.empty()) at::_foreach_zero_(zeroed_);
}

/// Partial gradients are also summed over the tensor-parallel ranks.
void WholeWeights::reduce_in_stage() {
  const at::NoGradGuard no_grad;
  for (const nn::ParameterPtr& p : replaced_) nn::refresh_gradient(*p);  // of weights that no sample used
  if (buckets_) buckets_->sum();
  if (gradients_.defined() && gradients_.numel() > 0 && mesh_.tokens().size() > 1)
    mesh_.tokens().all_reduce(gradients_);
  std::vector<at::Tensor> partial;
  for (const nn::ParameterPtr& p : trained_)
    if (p->partial_grad) partial.push_back(p->value.grad());
  sum_partial_grads(partial, mesh_.tensor());
}

}  // namespace trainer::parallel
