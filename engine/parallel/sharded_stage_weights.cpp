#include "engine/parallel/sharded_stage_weights.h"

#include <algorithm>

namespace trainer::parallel {

ShardedStageWeights::ShardedStageWeights(models::DecoderModel& model, const std::vector<models::Chunk>& chunks,
                                         const dist::Mesh& mesh, Precision precision, config::FsdpConfig options)
    : StageWeights(model, chunks, mesh, precision), model_(model), options_(std::move(options)) {}

void ShardedStageWeights::load(const WeightSource& source) {
  StageHolders tied;
  for (Parameter& one : parameters_) {
    const nn::Parameter& p = *one.parameter;
    one.dtype = p.trainable ? at::kFloat : precision_.frozen(p, source.dtype(p));
    if (one.holders.size() > 1) tied[one.parameter] = one.holders;
  }
  units_ = std::make_unique<ShardedUnits>(own_units(), tied, mesh_, precision_, options_, source);
}

/// The units of this rank's stages, with the parameters it holds. A module that contains blocks is not a unit: part of
/// its forward runs on other ranks, so its backward has no well-defined start. Its other parameters go to the root.
std::vector<UnitPlan> ShardedStageWeights::own_units() {
  std::set<nn::ParameterPtr> mine;
  for (const Parameter& one : parameters_)
    if (held(one)) mine.insert(one.parameter);
  const std::vector<nn::Module*> blocks = model_.blocks();
  const auto around_blocks = [&](const nn::Module& module) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const nn::Module* block) {
      return module.path().empty() || block->path().starts_with(module.path() + ".");
    });
  };
  std::vector<UnitPlan> units;
  UnitPlan root{&model_, {}};
  for (UnitPlan& plan : plan_units(model_, options_)) {
    std::erase_if(plan.parameters, [&](const nn::ParameterPtr& p) { return mine.count(p) == 0; });
    if (around_blocks(*plan.module))
      root.parameters.insert(root.parameters.end(), plan.parameters.begin(), plan.parameters.end());
    else if (!plan.parameters.empty())
      units.push_back(std::move(plan));
  }
  units.push_back(std::move(root));
  return units;
}

std::vector<LogicalTensor> ShardedStageWeights::held_tensors() {
  std::vector<LogicalTensor> all;
  units_->append_logical_tensors(all);
  return all;
}

}  // namespace trainer::parallel
