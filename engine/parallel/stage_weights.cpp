#include "engine/parallel/stage_weights.h"

#include <iterator>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

namespace trainer::parallel {

StageWeights::StageWeights(models::DecoderModel& model, const std::vector<models::Chunk>& chunks,
                           const dist::Mesh& mesh, Precision precision)
    : mesh_(mesh), precision_(precision) {
  const auto holders = holders_of(model, chunks, mesh.pipeline().size());
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    Parameter parameter{p, holders.at(p)};
    if (parameter.holders.size() > 1 && held(parameter)) parameter.holding = &group_of(parameter.holders);
    parameters_.push_back(std::move(parameter));
  }
}

dist::Comm& StageWeights::group_of(const std::set<int>& stages) {
  dist::Comm& pipeline = mesh_.pipeline();
  if (static_cast<int>(stages.size()) == pipeline.size()) return pipeline;
  auto& group = groups_[stages];
  if (!group) group = pipeline.group(fmt::format("tied-{}", fmt::join(stages, "-")), {stages.begin(), stages.end()});
  return *group;
}

std::vector<LogicalTensor> StageWeights::list_tensors() {
  std::map<std::string, LogicalTensor> here;
  for (LogicalTensor& tensor : held_tensors()) here.emplace(tensor.name, std::move(tensor));
  std::vector<LogicalTensor> all;
  for (const Parameter& one : parameters_) {
    const nn::Parameter& p = *one.parameter;
    if (held(one)) {
      LogicalTensor tensor = std::move(here.at(p.name));
      const auto stage = std::distance(one.holders.begin(), one.holders.find(mesh_.pipeline().rank()));
      tensor.copy += stage * tensor.copies;
      tensor.copies *= std::ssize(one.holders);
      tensor.replicated = tensor.copies == mesh_.world().size();
      all.push_back(std::move(tensor));
      continue;
    }
    LogicalTensor elsewhere{p.name, p.aliases, p.whole_shape(), p.trainable};
    elsewhere.part = p.part;
    elsewhere.value = at::empty({0}, at::TensorOptions(mesh_.world().device()).dtype(one.dtype));
    if (p.trainable) elsewhere.grad = elsewhere.value;
    all.push_back(std::move(elsewhere));
  }
  return all;
}

void StageWeights::reduce_gradients(const std::vector<LogicalTensor>& tensors) {
  reduce_in_stage();
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (const at::Tensor& grad = tensors[i].grad; parameters_[i].holding != nullptr && grad.defined())
      if (grad.numel() > 0) parameters_[i].holding->all_reduce(grad);
}

}  // namespace trainer::parallel
