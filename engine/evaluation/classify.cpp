#include "engine/evaluation/classify.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/zeros.h>

#include "models/nn/cross_entropy.h"

namespace trainer::evaluation {

Classes classify(parallel::ParallelModel& model, const models::Batch& batch, const nn::Pass& pass) {
  Classes found;
  at::Tensor classes;  // [samples]
  model.run_forward(pass, [&](nn::Pass& forward_pass) {
    if (const at::Tensor logits = model.logits(batch, forward_pass); logits.defined()) {
      found.loss = nn::cross_entropy_sum(logits, batch.labels, pass.label_smoothing).item<double>();
      classes = at::argmax(logits, -1);
    } else {
      classes = at::zeros({batch.source->samples()}, at::TensorOptions(model.comm().device()).dtype(at::kLong));
    }
  });
  model.broadcast_from_last_stage(classes);
  found.loss = model.mesh().pipeline().sum(found.loss);
  const at::Tensor here = classes.to(at::kCPU);
  found.classes.assign(here.const_data_ptr<int64_t>(), here.const_data_ptr<int64_t>() + here.numel());
  return found;
}

}  // namespace trainer::evaluation
