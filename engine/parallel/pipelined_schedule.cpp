#include "engine/parallel/pipelined_schedule.h"

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/dist/phase.h"
#include "engine/dist/step_phase.h"

namespace trainer::parallel {

PipelinedSchedule::PipelinedSchedule(models::DecoderModel& model, dist::MeshPtr mesh, Weights& weights,
                                     std::unique_ptr<StageRunner> runner)
    : Schedule(model, std::move(mesh), weights),
      decoder_(model),
      runner_(std::move(runner)),
      in_flight_(static_cast<size_t>(runner_->shape().chunks)) {}

ScalarSum PipelinedSchedule::update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass,
                                    const Root& root) {
  dist::Comm& pipeline = mesh_->pipeline();
  ScalarSum total;
  weights_.begin();
  for (const PipelineStep& step : pipeline_schedule(runner_->shape(), pipeline.rank(), std::ssize(micro_batches)))
    if (step.forward)
      forward(step.chunk, micro_batches[static_cast<size_t>(step.micro_batch)], pass, root, total);
    else
      backward(step.chunk);
  for (; !gradients_sent_.empty(); gradients_sent_.pop_front()) gradients_sent_.front().sent->wait();
  weights_.end();
  weights_.reduce_gradients();
  return total;
}

void PipelinedSchedule::forward(int64_t chunk, const models::Batch& given, const nn::Pass& pass, const Root& root,
                                ScalarSum& total) {
  const dist::StepPhase step_phase(dist::step_phase::kForward);
  const StageRunner::Stage& stage = runner_->stage(chunk);
  const models::Batch batch = input_of(given);
  InFlight flight;
  flight.pass = weights_.begin_forward();
  at::Tensor loss;
  flight.crossing = runner_->run(stage, [&] {
    if (runner_->last(stage))
      loss = decoder_.loss_sum(batch, pass);
    else
      decoder_.states(batch, pass);
  });
  flight.output = loss.defined() ? root(loss) : flight.crossing.out;
  if (loss.defined()) flight.crossing.out = at::Tensor();
  in_flight_[static_cast<size_t>(chunk)].push_back(std::move(flight));
  if (loss.defined()) total.add(loss);
}

void PipelinedSchedule::backward(int64_t chunk) {
  const dist::StepPhase step_phase(dist::step_phase::kBackward);
  const StageRunner::Stage& stage = runner_->stage(chunk);
  const dist::Phase phase(runner_->place_of(stage));
  auto& waiting = in_flight_[static_cast<size_t>(chunk)];
  const InFlight flight = std::move(waiting.front());
  waiting.pop_front();
  at::Tensor gradient;
  if (stage.gradient_after) gradient = runner_->receive_gradient(flight.output.size(0));
  if (flight.crossing.sent) flight.crossing.sent->wait();  // doesn't block: the next rank has already sent its gradient
  if (flight.output.requires_grad()) {
    weights_.begin_backward(flight.pass);
    using Gradients = std::vector<at::Tensor>;
    torch::autograd::backward({flight.output}, gradient.defined() ? Gradients{gradient} : Gradients{});
    weights_.end_backward();
  }
  if (stage.gradient_before) send_gradient(flight.crossing.in);
}

/// Sends the gradient of `states` [T, D] to the previous stage.
void PipelinedSchedule::send_gradient(const at::Tensor& states) {
  at::Tensor gradient = states.grad();
  gradient = gradient.defined() ? gradient.contiguous() : at::zeros_like(states);
  if (auto sent = runner_->send_gradient(gradient)) gradients_sent_.push_back({gradient, std::move(sent)});
  // The previous rank has at most this many forwards without a backward, so it has received all older gradients.
  for (const int64_t waiting = runner_->most_in_flight_before(); std::ssize(gradients_sent_) > waiting;
       gradients_sent_.pop_front())
    gradients_sent_.front().sent->wait();
}

double PipelinedSchedule::loss_sum(const models::Batch& given, const nn::Pass& pass) {
  const models::Batch batch = input_of(given);
  ScalarSum loss;
  if (runner_->has_last())
    loss.add(decoder_.loss_sum(batch, pass));
  else
    decoder_.states(batch, pass);
  runner_->wait_until_received();
  return sum_of_parts(values_of({loss}).front());
}

at::Tensor PipelinedSchedule::logits(const models::Batch& given, const nn::Pass& pass) {
  const models::Batch batch = with_prompt(given);
  at::Tensor logits;
  if (runner_->has_last())
    logits = decoder_.logits(batch, pass);
  else
    decoder_.states(batch, pass);
  runner_->wait_until_received();
  return logits;
}

at::Tensor PipelinedSchedule::decode(const at::Tensor& tokens, nn::Pass& pass) {
  at::Tensor logits;
  if (runner_->has_last())
    logits = decoder_.decode(tokens, pass);
  else
    decoder_.decode_states(tokens, pass);
  runner_->wait_until_received();
  return logits;
}

}  // namespace trainer::parallel
