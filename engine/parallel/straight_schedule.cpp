#include "engine/parallel/straight_schedule.h"

#include <torch/csrc/autograd/autograd.h>

namespace trainer::parallel {

ScalarSum StraightSchedule::update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass,
                                   const Root& root) {
  ScalarSum total;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const bool last = i + 1 == micro_batches.size();
    weights_.begin();
    const ForwardPassPtr forward = weights_.begin_forward();
    const at::Tensor loss = model_.loss_sum(input_of(micro_batches[i]), pass);
    total.add(loss);
    if (last) weights_.reduce_in_backward(loss);
    weights_.begin_backward(forward);
    torch::autograd::backward({root(loss)}, {});
    weights_.end_backward();
    if (last) weights_.reduce_gradients();
    weights_.end();
  }
  return total;
}

}  // namespace trainer::parallel
