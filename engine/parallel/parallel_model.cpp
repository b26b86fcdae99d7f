#include "engine/parallel/parallel_model.h"

#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_mul.h>
#include <torch/csrc/autograd/grad_mode.h>

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
  nn::save_activations_as(precision_.saved);
  nn::Pass pass = given;
  pass.compute = precision_.compute;
  // The division that to_backward() differentiates. Without tokens there are no gradients.
  if (target_tokens > 0) pass.loss_grad = 1.0F / static_cast<float>(static_cast<double>(target_tokens) / loss_scale_);
  const ScalarSum loss = schedule_->update(
      micro_batches, pass, [&](const at::Tensor& loss_sum) { return to_backward(loss_sum, target_tokens); });
  std::vector<ScalarSum> sums{loss};
  squares_.reset();
  if (loss.on_device()) {  // see Note [One read]
    const std::vector<ScalarSum> squares = gradient_squares();
    sums.insert(sums.end(), squares.begin(), squares.end());
  }
  const std::vector<double> values = values_of(sums);
  if (loss.on_device()) squares_.emplace(values.begin() + 1, values.end());
  return schedule_->sum_of_parts(values.front());
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

std::vector<ScalarSum> ParallelModel::gradient_squares() const {
  std::vector<at::Tensor> own, replicated;
  for (const LogicalTensor& tensor : logical_tensors())
    if (tensor.grad.defined() && (tensor.replicated || tensor.copy == 0))
      (tensor.replicated ? replicated : own).push_back(tensor.grad);
  std::vector<ScalarSum> sums(2);
  sums[0].add_squares(own);
  sums[1].add_squares(replicated);
  return sums;
}

std::vector<double> ParallelModel::take_squares() {
  const auto read = std::exchange(squares_, std::nullopt);
  return read ? *read : values_of(gradient_squares());
}

double ParallelModel::clip_grad_norm(double max_norm) {
  const std::vector<double> sums = take_squares();
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
    if (tensor.grad.defined()) all.push_back(tensor.updated_part(tensor.grad));
  return all;
}

void ParallelModel::zero_grad() {
  squares_.reset();
  weights_->drop_gradients();
}

}  // namespace trainer::parallel
