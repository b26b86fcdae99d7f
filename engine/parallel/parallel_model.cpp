#include "engine/parallel/parallel_model.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/parallel/context_parallel.h"
#include "models/nn/cross_entropy.h"
#include "models/virtual_tokens.h"

namespace trainer::parallel {
namespace {

/// Whether `token` ends a text.
bool ends(const models::Model& model, int64_t token) {
  const std::vector<int64_t> ends = model.end_tokens();
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

}  // namespace

ParallelModel::ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision)
    : model_(std::move(model)), mesh_(std::move(mesh)), precision_(precision) {}

double ParallelModel::value_of(const at::Tensor& scalar) {
  return scalar.is_meta() ? 0 : scalar.item<double>();
}

std::vector<int64_t> ParallelModel::classes_of(const at::Tensor& classes) {
  if (classes.is_meta()) return {};
  const at::Tensor here = classes.to(at::kCPU);
  return {here.const_data_ptr<int64_t>(), here.const_data_ptr<int64_t>() + here.numel()};
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
  const at::NoGradGuard no_grad;
  begin_forward();
  const double loss = value_of(model_->loss_sum(own_rows(given_to_model(batch), mesh_), without_gradients(given)));
  end_forward();
  return mesh_->context().sum(loss);
}

ParallelModel::Classes ParallelModel::classify(const models::Batch& batch, const nn::Pass& given) {
  const at::NoGradGuard no_grad;
  begin_forward();
  const at::Tensor logits = model_->logits(given_to_model(batch), without_gradients(given));
  Classes found{value_of(nn::cross_entropy_sum(logits, batch.labels, given.label_smoothing)),
                classes_of(at::argmax(logits, -1))};
  end_forward();
  return found;
}

at::Tensor ParallelModel::next_of(const at::Tensor& tokens, const nn::Layout& samples, const Sampling& sampling,
                                  int64_t step, nn::Pass& pass) {
  return next_tokens(model_->all_logits(model_->decode(tokens, pass)), sampling, samples.sample_index, step);
}

std::vector<std::vector<int64_t>> ParallelModel::generate(const models::Batch& batch, int64_t max_new_tokens,
                                                          const nn::Pass& given, const Sampling& sampling) {
  const at::NoGradGuard no_grad;
  nn::Pass pass = without_gradients(given);
  nn::DecodeCache cache;
  cache.capacity = max_new_tokens;
  const int64_t samples = batch.source->samples();
  std::vector<std::vector<int64_t>> out(samples);
  std::vector<bool> ended(samples, false);
  begin_forward();
  at::Tensor tokens = model_->begin_decoding(given_to_model(batch), pass, cache);
  for (int64_t step = 0; step < max_new_tokens; ++step) {
    tokens = next_of(tokens, *batch.source, sampling, step, pass);
    bool going = false;
    for (int64_t s = 0; s < samples; ++s) {
      const bool dry = tokens.is_meta();
      const int64_t token = dry ? 0 : tokens.const_data_ptr<int64_t>()[s];
      if (dry || ends(*model_, token)) ended[s] = true;
      if (!ended[s]) out[s].push_back(token);
      going = going || !ended[s];
    }
    if (comm().max(going ? 1 : 0) == 0) break;
  }
  end_forward();
  return out;
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
