#include "engine/parallel/parallel_model.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/parallel/context_parallel.h"
#include "models/virtual_tokens.h"

namespace trainer::parallel {

ParallelModel::ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision)
    : model_(std::move(model)), mesh_(std::move(mesh)), precision_(precision) {}

double ParallelModel::value_of(const at::Tensor& scalar) {
  return scalar.is_meta() ? 0 : scalar.item<double>();
}

void ParallelModel::load(const WeightSource& source) {
  load_values(source);
  tensors_ = list_tensors();
}

double ParallelModel::update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens,
                             const nn::Pass& given) {
  nn::Pass pass = given;
  pass.compute = precision_.compute;
  double total = 0;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const bool last = i + 1 == micro_batches.size();
    begin_forward();
    const at::Tensor loss = model_->loss_sum(own_rows(given_to_model(micro_batches[i]), mesh_), pass);
    total += value_of(loss);
    begin_backward(loss, last);
    torch::autograd::backward({to_backward(loss, target_tokens)}, {});
    end_backward(last);
    end_forward();
  }
  return mesh_->context().sum(total);
}

at::Tensor ParallelModel::to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const {
  return loss_sum / (static_cast<double>(target_tokens) / loss_scale_);
}

models::Batch ParallelModel::given_to_model(const models::Batch& batch) const {
  return models::with_virtual_tokens(batch, model_->virtual_tokens());
}

nn::Pass ParallelModel::without_gradients(const nn::Pass& given) const {
  nn::Pass pass = given;
  pass.training = false;
  pass.label_smoothing = 0;
  pass.compute = precision_.compute;
  return pass;
}

double ParallelModel::evaluate(const models::Batch& batch, const nn::Pass& given) {
  double loss = 0;
  run_forward(given, [&](nn::Pass& pass) {
    loss = value_of(model_->loss_sum(own_rows(given_to_model(batch), mesh_), pass));
  });
  return mesh_->context().sum(loss);
}

void ParallelModel::run_forward(const nn::Pass& given, const std::function<void(nn::Pass&)>& work) {
  const at::NoGradGuard no_grad;
  nn::Pass pass = without_gradients(given);
  begin_forward();
  work(pass);
  end_forward();
}

at::Tensor ParallelModel::logits(const models::Batch& batch, const nn::Pass& pass) {
  return model_->logits(given_to_model(batch), pass);
}

at::Tensor ParallelModel::decode(const at::Tensor& tokens, nn::Pass& pass) {
  return model_->decode(tokens, pass);
}

void ParallelModel::broadcast_from_last_stage(const at::Tensor& result) {
  dist::Comm& pipeline = mesh_->pipeline();
  if (pipeline.size() > 1 && result.numel() > 0) pipeline.broadcast(result, pipeline.size() - 1);
}

double ParallelModel::sum_of_squares(const at::Tensor& flat) {
  if (!flat.is_cpu()) return std::pow(at::linalg_vector_norm(flat, 2, {}, false, at::kDouble).item<double>(), 2);
  const auto* const x = flat.const_data_ptr<float>();
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < flat.numel(); ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

double ParallelModel::clip_grad_norm(double max_norm) {
  double mine = 0, everywhere = 0;
  for (const LogicalTensor& tensor : tensors_) {
    if (!tensor.grad.defined()) continue;
    if (tensor.replicated)
      everywhere += sum_of_squares(tensor.grad);
    else if (tensor.copy == 0)
      mine += sum_of_squares(tensor.grad);
  }
  // Replicated values are included in the reduction if not finite, so that all ranks agree on whether the norm is
  // finite.
  return unscale_and_clip(std::sqrt(comm().sum(std::isfinite(everywhere) ? mine : everywhere) + everywhere), max_norm);
}

double ParallelModel::unscale_and_clip(double scaled_norm, double max_norm) {
  const double norm = scaled_norm / loss_scale_, clip = max_norm / (norm + 1e-6);
  const double factor = (max_norm > 0 && clip < 1 ? clip : 1.0) / loss_scale_;
  if (factor != 1 && std::isfinite(norm))
    for (const LogicalTensor& tensor : tensors_)
      if (tensor.grad.defined()) tensor.grad.mul_(factor);
  return norm;
}

void ParallelModel::zero_grad() {
  for (const LogicalTensor& tensor : tensors_)
    if (tensor.grad.defined()) tensor.grad.zero_();
}

}  // namespace trainer::parallel
