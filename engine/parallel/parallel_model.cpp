#include "engine/parallel/parallel_model.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/dist/dry_trace.h"

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

double ParallelModel::sum_of_squares(const at::Tensor& flat) {
  if (!flat.is_cpu()) {
    const at::Tensor norm = at::linalg_vector_norm(flat, 2, {}, false, at::kDouble);
    if (!norm.is_meta()) return std::pow(norm.item<double>(), 2);
    dist::record(dist::DryHostRead{});
    constexpr double kLarge = 1e12;  // a dry run clips
    return kLarge;
  }
  const auto* const x = flat.const_data_ptr<float>();
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < flat.numel(); ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

double ParallelModel::clip_grad_norm(double max_norm) {
  double mine = 0, everywhere = 0;
  for (const LogicalTensor& tensor : logical_tensors()) {
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
    for (const LogicalTensor& tensor : logical_tensors())
      if (tensor.grad.defined()) tensor.grad.mul_(factor);
  return norm;
}

void ParallelModel::zero_grad() {
  for (const LogicalTensor& tensor : logical_tensors())
    if (tensor.grad.defined()) tensor.grad.zero_();
}

}  // namespace trainer::parallel
