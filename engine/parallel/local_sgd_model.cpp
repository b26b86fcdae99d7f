#include "engine/parallel/local_sgd_model.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::parallel {

LocalSgdModel::LocalSgdModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                             std::unique_ptr<Weights> weights, std::unique_ptr<Schedule> schedule, int64_t every)
    : ParallelModel(std::move(model), std::move(mesh), precision, std::move(weights), std::move(schedule)),
      every_(every) {}

at::Tensor LocalSgdModel::to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const {
  return ParallelModel::to_backward(loss_sum, target_tokens) * static_cast<double>(mesh().data().size());
}

std::vector<ScalarSum> LocalSgdModel::gradient_squares() const {
  std::vector<ScalarSum> sums(1);
  sums[0].add_squares(gradients());
  return sums;
}

double LocalSgdModel::clip_grad_norm(double max_norm) {
  const double squares = take_squares().front();
  // All ranks must know if one of them has overflowed.
  const double of_all = comm().sum(squares);
  const double own = unscale_and_clip(std::isfinite(of_all) ? std::sqrt(squares) : of_all, max_norm);
  return std::isfinite(of_all) ? std::sqrt(of_all / comm().size()) / loss_scale() : own;
}

void LocalSgdModel::after_update(int64_t step) {
  apart_ = true;
  if (step % every_ == 0) average_replicas({});
}

void LocalSgdModel::average_replicas(const std::vector<at::Tensor>& state) {
  const at::NoGradGuard no_grad;
  if (apart_)
    for (const LogicalTensor& tensor : logical_tensors())
      if (tensor.trainable) average(tensor.value);
  apart_ = false;
  for (const at::Tensor& tensor : state) average(tensor);
}

void LocalSgdModel::average(const at::Tensor& tensor) {
  mesh().data().all_reduce(tensor);
  tensor.div_(static_cast<double>(mesh().data().size()));
}

}  // namespace trainer::parallel
