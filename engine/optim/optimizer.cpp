#include "engine/optim/optimizer.h"

#include <algorithm>

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/dist/shared_memory.h"
#include "engine/optim/optimizers.h"
#include "engine/optim/parameter_rules.h"

namespace trainer::optim {
namespace {

std::vector<parallel::LogicalTensor> trained_among(const std::vector<parallel::LogicalTensor>& tensors) {
  std::vector<parallel::LogicalTensor> trained;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(trained), [](const auto& t) { return t.trainable; });
  return trained;
}

const Maker& maker_of(config::OptimizerName optim) {
  for (const Maker& maker : kMakers)
    if (maker.optim == optim) return maker;
  throw InternalError("invalid optimizer {}", static_cast<int>(optim));
}

/// The ranks that share weights; null: none do.
dist::Comm* sharers_of(const Trained& trained) {
  return trained.empty() ? nullptr : trained.front().sharers;
}

}  // namespace

parallel::LogicalTensor StateTensor::logical(const parallel::LogicalTensor& of) const {
  parallel::LogicalTensor tensor = of;
  tensor.value = value;
  if (shape.empty()) return tensor;
  tensor.shape = shape;
  tensor.part = {};
  tensor.begin = 0, tensor.end = tensor.numel();
  tensor.replicated = true;
  return tensor;
}

at::Device device_of(const Trained& trained) {
  return trained.empty() ? at::Device(at::kCPU) : trained.front().value.device();
}

Optimizer::Optimizer(const config::TrainingConfig& options)
    : weight_decay_(options.weight_decay),
      learning_rate_(options.learning_rate),
      lora_plus_(options.loraplus_lr_ratio) {}

at::Tensor Optimizer::add_state(const char* kind, const parallel::LogicalTensor& tensor, at::ScalarType dtype) {
  state_.push_back({kind, tensor.name, at::zeros_like(tensor.value, dtype), {}});
  return state_.back().value;
}

std::vector<at::Tensor> Optimizer::add_state(const char* kind, const Trained& trained) {
  std::vector<at::Tensor> values;
  if (dist::Comm* const sharers = sharers_of(trained)) {
    int64_t total = 0, at = 0;
    for (const auto& tensor : trained) total += tensor.value.numel();
    const at::Tensor memory = dist::shared_floats(*sharers, total);
    if (!memory.defined()) throw MachineError("cannot map {} MiB of shared memory on every rank.", total >> 18);
    for (const auto& tensor : trained) {
      state_.push_back({kind, tensor.name, memory.narrow(0, at, tensor.value.numel()), {}});
      at += tensor.value.numel();
    }
  } else {
    for (const auto& tensor : trained) add_state(kind, tensor);
  }
  for (size_t i = 0; i < trained.size(); ++i)
    values.push_back(trained[i].updated_part(state_[state_.size() - trained.size() + i].value));
  return values;
}

std::vector<Optimizer::Group> Optimizer::groups_of(const Trained& trained) const {
  std::vector<UpdateRule> rules;
  std::vector<Group> groups;
  for (size_t i = 0; i < trained.size(); ++i) {
    const at::Tensor value = trained[i].updated_part(trained[i].value);
    if (value.numel() == 0) continue;  // another rank has it
    const UpdateRule rule = lora_plus_ > 0 ? lora_plus_rule(trained[i], lora_plus_, learning_rate_)
                                           : UpdateRule{decays(trained[i].name), 1};
    const size_t at = static_cast<size_t>(std::find(rules.begin(), rules.end(), rule) - rules.begin());
    if (at == rules.size()) {
      rules.push_back(rule);
      groups.push_back({rule.decays ? weight_decay_ : 0, rule.rate, {}, {}, {}});
    }
    groups[at].values.push_back(value);
    groups[at].grads.push_back(trained[i].updated_part(trained[i].grad));
    groups[at].places.push_back(i);
  }
  return groups;
}

void Optimizer::step(const std::vector<parallel::LogicalTensor>& tensors, double learning_rate) {
  const at::NoGradGuard no_grad;
  ++steps_;
  const Trained trained = trained_among(tensors);
  prepare(trained);
  // Other ranks may read shared weights until they come here too, and from when this returns.
  dist::Comm* const sharers = sharers_of(trained);
  if (sharers) sharers->barrier();
  for (Group& group : groups_of(trained)) update(group, learning_rate * group.rate);
  if (sharers) sharers->barrier();
}

bool updates_by_element(config::OptimizerName optim) {
  return maker_of(optim).by_element;
}

std::unique_ptr<Optimizer> make_optimizer(const config::TrainingConfig& options,
                                          const std::vector<parallel::LogicalTensor>& tensors, dist::Comm& comm) {
  const Maker& maker = maker_of(options.optim);
  const Trained trained = trained_among(tensors);
  require(maker.by_element || sharers_of(trained) == nullptr, "this optimizer can't update a part of a weight");
  return maker.make(options, trained, comm);
}

}  // namespace trainer::optim
