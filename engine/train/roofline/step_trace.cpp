#include "engine/train/roofline/step_trace.h"

#include "engine/dist/dry_memory.h"
#include "engine/dist/dry_trace.h"
#include "engine/optim/optimizer.h"
#include "engine/train/dry_model.h"
#include "models/nn/linear.h"

namespace trainer::train {

double trained_part(models::Model& model) {
  double trained = 0, all = 0;
  model.visit([&](nn::Module& module) {
    if (dynamic_cast<const nn::Linear*>(&module) == nullptr) return;
    for (const auto& [name, parameter] : module.parameters()) {
      const auto elements = static_cast<double>(parameter->numel());
      all += elements;
      if (parameter->trainable) trained += elements;
    }
  });
  return all > 0 ? trained / all : 1;
}

StepTrace trace_step(const config::Plan& plan, Blueprint blueprint, const Workload& workload, const BatchLengths& batch,
                     int64_t stage) {
  dist::count_dry_memory();  // also the shapes of operators that libtorch has none for
  const DryModel model(plan, std::move(blueprint), workload.transport, stage);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), model.comm());
  const models::Batch one = dry_batch(batch, workload.training.kind, model->model().features());
  nn::Pass pass;
  pass.training = plan.config.training.dropout;
  const auto update = [&](int64_t count) {
    model->update(std::vector<models::Batch>(static_cast<size_t>(count), one), 1, pass);
  };
  StepTrace trace{.micro_batches = workload.under_way, .trained = trained_part(model->model())};
  update(trace.micro_batches);  // prefetching learns the order of units in the first one
  dist::DryRecorder recorder;
  const auto recorded = [&](const auto& work) {
    recorder.take();
    work();
    return recorder.take();
  };
  trace.some = recorded([&] { update(trace.micro_batches); });
  trace.twice = recorded([&] { update(2 * trace.micro_batches); });
  trace.end = recorded([&] {
    model->clip_grad_norm(plan.config.training.max_grad_norm);
    optimizer->step(model->logical_tensors(), 0);
    model->zero_grad();
  });
  trace.forward = recorded([&] { model->evaluate(one, {}); });
  return trace;
}

}  // namespace trainer::train
