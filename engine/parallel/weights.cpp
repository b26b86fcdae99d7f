#include "engine/parallel/weights.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "engine/parallel/pipeline_stages.h"

namespace trainer::parallel {

Weights::Weights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
                 const Precision& precision, const WeightSource& source)
    : mesh_(mesh) {
  const auto holders = holders_of(model, chunks, mesh.pipeline().size());
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    p->storage = precision.storage(*p, source.storage(*p));
    Parameter parameter{p, holders.at(p), nullptr};
    if (held(parameter)) p->storage = source.with_groups(p->storage, *p, mesh.world().device());
    if (parameter.holders.size() > 1 && held(parameter)) parameter.holding = &group_of(parameter.holders);
    parameters_.push_back(std::move(parameter));
  }
}

dist::Comm& Weights::group_of(const std::set<int>& stages) {
  dist::Comm& pipeline = mesh_.pipeline();
  if (static_cast<int>(stages.size()) == pipeline.size()) return pipeline;
  auto& group = groups_[stages];
  if (!group) group = pipeline.group(fmt::format("tied-{}", fmt::join(stages, "-")), {stages.begin(), stages.end()});
  return *group;
}

bool Weights::trains() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [&](const Parameter& one) { return held(one) && one.parameter->trainable; });
}

bool Weights::use_in_place(nn::Parameter& parameter, const WeightSource& source) {
  auto [value, file] = source.in_place(parameter);
  if (!value.defined()) return false;
  parameter.value = std::move(value);
  if (file) files_.insert(std::move(file));
  return true;
}

void Weights::check_files() const {
  for (const auto& file : files_) file->check_unchanged();
}

LogicalTensor Weights::whole_tensor(const Parameter& one) const {
  const nn::Parameter& p = *one.parameter;
  LogicalTensor tensor = logical_tensor_of(p, 0, p.numel(), mesh_.tokens(), one.holders, mesh_);
  tensor.replicated = tensor.copies == mesh_.world().size();
  tensor.value = p.value.detach().view(-1);
  if (p.trainable) tensor.grad = p.value.grad().view(-1);
  return tensor;
}

void Weights::list(std::vector<LogicalTensor> here, at::Device device) {
  std::map<std::string, LogicalTensor> by_name;
  for (LogicalTensor& tensor : here) by_name.emplace(tensor.name, std::move(tensor));
  for (const Parameter& one : parameters_) {
    const nn::Parameter& p = *one.parameter;
    if (held(one)) {
      tensors_.push_back(std::move(by_name.at(p.name)));
      continue;
    }
    LogicalTensor elsewhere{p.name, p.aliases, p.whole_shape(), p.trainable};
    elsewhere.part = p.part;
    elsewhere.storage = p.storage;
    elsewhere.value = at::empty({0}, at::TensorOptions(device).dtype(p.storage.dtype));
    if (p.trainable) elsewhere.grad = elsewhere.value;
    tensors_.push_back(std::move(elsewhere));
  }
}

void Weights::reduce_gradients() {
  reduce_in_stage();
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (const at::Tensor& grad = tensors_[i].grad; parameters_[i].holding != nullptr && grad.defined())
      if (grad.numel() > 0) parameters_[i].holding->all_reduce(grad);
}

}  // namespace trainer::parallel
