#include "engine/selftest/outcome.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>

#include "engine/optim/optimizer.h"
#include "engine/parallel/gather.h"
#include "engine/train/batch_stream.h"
#include "engine/train/build.h"
#include "models/nn/device/attention_choice.h"

namespace trainer::selftest {
namespace {

constexpr int kUpdates = 10;
constexpr double kLearningRate = 5e-3;

std::map<std::string, at::Tensor> gathered_gradients(parallel::ParallelModel& model) {
  std::map<std::string, at::Tensor> gradients;
  for (const parallel::LogicalTensor& tensor : model.logical_tensors()) {
    if (!tensor.trainable) continue;
    parallel::LogicalTensor gradient = tensor;
    gradient.value = tensor.grad;
    gradients[tensor.name] = parallel::gather(gradient, model.comm()).to(at::kCPU, false, /*copy=*/true);
  }
  return gradients;
}

double length(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).norm().item<double>();
}

double relative(double found, double expected) {
  const double difference = std::abs(found / expected - 1);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

}  // namespace

Outcome train(const config::Plan& plan, const data::Samples& samples, dist::Comm& comm) {
  train::Blueprint blueprint = train::make_blueprint(plan);
  const auto model = train::make_parallel(plan, blueprint, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  dist::Comm& data = model->mesh().data();
  const train::BatchStream batches(samples, plan.config, kGlobalBatch, data.rank(), data.size());
  const nn::OwnAttentionMasks same_masks;  // on every device
  nn::Pass pass;
  pass.training = plan.config.training.dropout;
  pass.seed = 11;
  pass.embedding_noise = plan.config.training.neftune_noise_alpha;
  Outcome outcome;
  int64_t consumed = 0;
  for (int i = 0; i < kUpdates; ++i) {
    const train::UpdateBatch batch = batches.next(consumed);
    const double loss = model->update(batch.micro_batches, batch.target_tokens, pass);
    outcome.losses.push_back(data.sum(loss) / static_cast<double>(batch.target_tokens));
    if (i == 0) outcome.gradients = gathered_gradients(*model);
    model->clip_grad_norm(1.0);
    optimizer->step(model->logical_tensors(), kLearningRate);
    model->zero_grad();
    consumed = batch.positions.end;
  }
  return outcome;
}

Outcome train(const Setting& setting, const data::Samples& samples, dist::Comm& comm) {
  return train(plan_of(setting), samples, comm);
}

Difference difference(const Outcome& found, const Outcome& reference, bool bf16, double gradient_tolerance) {
  Difference worst;
  worst.bf16 = bf16;
  worst.gradient_tolerance = gradient_tolerance;
  worst.first_loss = relative(found.losses[0], reference.losses[0]);
  for (size_t i = 0; i < reference.losses.size(); ++i)
    worst.losses = std::max(worst.losses, relative(found.losses[i], reference.losses[i]));
  double all = 0;
  for (const auto& [name, gradient] : reference.gradients) all += std::pow(length(gradient), 2);
  all = std::sqrt(all);
  for (const auto& [name, gradient] : reference.gradients) {
    const auto its = found.gradients.find(name);
    const bool there = its != found.gradients.end() && its->second.sizes() == gradient.sizes();
    // Relative to the gradient's own size plus a share of the total: the relative error of a true gradient of 0 is
    // useless.
    const double size = length(gradient) + 1e-2 * all;
    const double apart =
        there ? relative(length(its->second - gradient) + size, size) : std::numeric_limits<double>::infinity();
    if (apart <= worst.gradients) continue;
    worst.gradients = apart;
    worst.worst_gradient = name;
  }
  return worst;
}

bool Difference::fits() const {
  // Where a value is near 0, rounding decides whether a ReLU lets its gradient pass; and ranks that share a product
  // round their parts of a sum, which can be larger than the sum.
  if (bf16) return std::max(first_loss, losses) <= 2e-2 && gradients <= std::max(2e-2, 5 * rounding);
  return first_loss <= 1e-6 && gradients <= gradient_tolerance && losses <= 1e-5;
}

}  // namespace trainer::selftest
