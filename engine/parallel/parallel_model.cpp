#include "engine/parallel/parallel_model.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_mul.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/parallel/sums.h"

namespace trainer::parallel {

ParallelModel::ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                             std::unique_ptr<Weights> weights, std::unique_ptr<Schedule> schedule)
    : model_(std::move(model)),
      mesh_(std::move(mesh)),
      precision_(precision),
      weights_(std::move(weights)),
      schedule_(std::move(schedule)) {}

double ParallelModel::update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens,
                             const nn::Pass& given) {
  nn::Pass pass = given;
  pass.compute = precision_.compute;
  return schedule_->update(micro_batches, pass,
                           [&](const at::Tensor& loss_sum) { return to_backward(loss_sum, target_tokens); });
}

at::Tensor ParallelModel::to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const {
  return loss_sum / (static_cast<double>(target_tokens) / loss_scale_);
}

double ParallelModel::evaluate(const models::Batch& batch, const nn::Pass& given) {
  double loss = 0;
  run_forward(given, [&](const nn::Pass& pass) { loss = schedule_->loss_sum(batch, pass); });
  return loss;
}

void ParallelModel::run_forward(const nn::Pass& given, const std::function<void(nn::Pass&)>& work) {
  const at::NoGradGuard no_grad;
  nn::Pass pass = given;
  pass.training = false;
  pass.compute = precision_.compute;
  weights_->begin();
  weights_->begin_forward();
  work(pass);
  weights_->end();
}

void ParallelModel::broadcast_from_last_stage(const at::Tensor& result) {
  dist::Comm& pipeline = mesh_->pipeline();
  if (pipeline.size() > 1 && result.numel() > 0) pipeline.broadcast(result, pipeline.size() - 1);
}

double ParallelModel::clip_grad_norm(double max_norm) {
  std::vector<at::Tensor> own, replicated;
  for (const LogicalTensor& tensor : logical_tensors())
    if (tensor.grad.defined() && (tensor.replicated || tensor.copy == 0))
      (tensor.replicated ? replicated : own).push_back(tensor.grad);
  const std::vector<double> sums = sums_of_squares({own, replicated});
  const double mine = sums[0], everywhere = sums[1];
  // Replicated values are included in the reduction if not finite, so that all ranks agree on whether the norm is
  // finite.
  return unscale_and_clip(std::sqrt(comm().sum(std::isfinite(everywhere) ? mine : everywhere) + everywhere), max_norm);
}

double ParallelModel::unscale_and_clip(double scaled_norm, double max_norm) {
  const double norm = scaled_norm / loss_scale_, clip = max_norm / (norm + 1e-6);
  const double factor = (max_norm > 0 && clip < 1 ? clip : 1.0) / loss_scale_;
  if (factor == 1 || !std::isfinite(norm)) return norm;
  if (const std::vector<at::Tensor> all = gradients(); !all.empty()) at::_foreach_mul_(all, factor);
  return norm;
}

std::vector<at::Tensor> ParallelModel::gradients() const {
  std::vector<at::Tensor> all;
  for (const LogicalTensor& tensor : logical_tensors())
    if (tensor.grad.defined()) all.push_back(tensor.grad);
  return all;
}

void ParallelModel::zero_grad() {
  for (const at::Tensor& gradient : gradients()) gradient.zero_();
}

}  // namespace trainer::parallel
