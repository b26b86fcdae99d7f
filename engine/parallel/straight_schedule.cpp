#include "engine/parallel/straight_schedule.h"

#include <torch/csrc/autograd/autograd.h>

#include "engine/dist/step_phase.h"

namespace trainer::parallel {

at::Tensor StraightSchedule::forward(const models::Batch& batch, const nn::Pass& pass, ForwardPassPtr& run) {
  const dist::StepPhase phase(dist::step_phase::kForward);
  weights_.begin();
  run = weights_.begin_forward();
  return model_.loss_sum(input_of(batch), pass);
}

void StraightSchedule::backward(const at::Tensor& loss, const Root& root, const ForwardPassPtr& run, bool last) {
  const dist::StepPhase phase(dist::step_phase::kBackward);
  if (last) weights_.reduce_in_backward(loss);
  weights_.begin_backward(run);
  torch::autograd::backward({root(loss)}, {});
  weights_.end_backward();
  if (last) weights_.reduce_gradients();
  weights_.end();
}

ScalarSum StraightSchedule::update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass,
                                   const Root& root) {
  ScalarSum total;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    ForwardPassPtr run;
    const at::Tensor loss = forward(micro_batches[i], pass, run);
    total.add(loss);
    backward(loss, root, run, i + 1 == micro_batches.size());
  }
  return total;
}

}  // namespace trainer::parallel
