#include "engine/parallel/threaded_schedule.h"

#include <exception>
#include <system_error>
#include <thread>

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/dist/step_phase.h"

namespace trainer::parallel {
namespace {

std::vector<nn::ParameterPtr> trained_of(models::Model& model) {
  std::vector<nn::ParameterPtr> trained = model.all_parameters();
  std::erase_if(trained, [](const nn::ParameterPtr& p) { return !p->trainable; });
  return trained;
}

/// Runs work(0) … work(count - 1), the first on this thread, each other on its own. Errors: rethrows the first one;
/// MachineError if a thread can't be started.
void run_together(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> errors(count);
  const auto guarded = [&](size_t i) {
    try {
      work(i);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;  // joined at the end of the block, also when one can't be started
    for (size_t i = 1; i < count; ++i) {
      try {
        threads.emplace_back(guarded, i);
      } catch (const std::system_error& error) {
        throw MachineError("thread {} of {} can't be started: {}; num_processes asks for {}", i + 1, count,
                           error.what(), count);
      }
    }
    guarded(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace

ThreadedSchedule::ThreadedSchedule(models::Model& model, dist::MeshPtr mesh, Weights& weights,
                                   std::vector<std::unique_ptr<models::Model>> replicas)
    : Schedule(model, std::move(mesh), weights), replicas_(std::move(replicas)) {
  trained_.push_back(trained_of(model));
  const auto own = model.all_parameters();
  for (const auto& replica : replicas_) {
    const auto its = replica->all_parameters();
    require(its.size() == own.size(), "a replica has {} parameters, the model {}", its.size(), own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      its[i]->storage = own[i]->storage;
      its[i]->value = own[i]->value.detach().set_requires_grad(own[i]->trainable);
    }
    trained_.push_back(trained_of(*replica));
  }
}

ScalarSum ThreadedSchedule::update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass,
                                   const Root& root) {
  const size_t count = trained_.size();
  std::vector<at::Tensor> losses(micro_batches.size());
  run_together(count, [&](size_t r) {
    models::Model& replica = r == 0 ? model_ : *replicas_[r - 1];
    for (size_t i = r; i < micro_batches.size(); i += count) {
      at::Tensor loss;
      {
        const dist::StepPhase phase(dist::step_phase::kForward);
        loss = replica.loss_sum(input_of(micro_batches[i]), pass);
      }
      losses[i] = loss.detach();
      const dist::StepPhase phase(dist::step_phase::kBackward);
      torch::autograd::backward({root(loss)}, {});
    }
  });
  add_gradients_of_replicas();
  ScalarSum total;
  for (const at::Tensor& loss : losses) total.add(loss);
  return total;
}

/// In a fixed order, so that sums are reproducible.
void ThreadedSchedule::add_gradients_of_replicas() {
  const at::NoGradGuard no_grad;
  for (size_t r = 1; r < trained_.size(); ++r)
    for (size_t i = 0; i < trained_[r].size(); ++i) {
      at::Tensor& grad = trained_[r][i]->value.mutable_grad();
      if (grad.defined()) trained_[0][i]->value.mutable_grad().add_(grad);
      grad = at::Tensor();
    }
}

int64_t ThreadedSchedule::copied_gradient_bytes() const {
  int64_t bytes = 0;
  for (const nn::ParameterPtr& p : trained_.front()) bytes += static_cast<int64_t>(p->value.nbytes());
  return bytes * static_cast<int64_t>(replicas_.size());
}

}  // namespace trainer::parallel
