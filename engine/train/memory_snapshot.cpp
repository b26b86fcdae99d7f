#include "engine/train/memory_snapshot.h"

#include <ATen/ops/empty_like.h>

namespace trainer::train {
namespace {

std::vector<at::Tensor> changing(parallel::ParallelModel& model, const optim::Optimizer& optimizer) {
  std::vector<at::Tensor> all;
  for (const parallel::LogicalTensor& tensor : model.logical_tensors())
    if (tensor.trainable) all.push_back(tensor.value);
  for (const optim::StateTensor& tensor : optimizer.state()) all.push_back(tensor.value);
  return all;
}

}  // namespace

void MemorySnapshot::take(parallel::ParallelModel& model, const optim::Optimizer& optimizer) {
  const std::vector<at::Tensor> now = changing(model, optimizer);
  if (kept_.empty())
    for (const at::Tensor& tensor : now) kept_.push_back(at::empty_like(tensor));
  for (size_t i = 0; i < now.size(); ++i) kept_[i].copy_(now[i]);
  optimizer_steps_ = optimizer.steps();
}

void MemorySnapshot::restore(parallel::ParallelModel& model, optim::Optimizer& optimizer) const {
  const std::vector<at::Tensor> now = changing(model, optimizer);
  for (size_t i = 0; i < now.size(); ++i) now[i].copy_(kept_[i]);
  optimizer.set_steps(optimizer_steps_);
}

}  // namespace trainer::train
