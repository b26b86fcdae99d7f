#include "engine/parallel/sharded_weights.h"

#include <algorithm>

namespace trainer::parallel {

ShardedWeights::ShardedWeights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
                               const Precision& precision, const config::FsdpConfig& options,
                               const WeightSource& source)
    : Weights(model, chunks, mesh, precision, source) {
  StageHolders tied;
  for (const Parameter& one : parameters_)
    if (one.holders.size() > 1) tied[one.parameter] = one.holders;
  std::vector<LogicalTensor> tensors;
  std::set<nn::ParameterPtr> whole;  // used in place: in no unit
  const bool in_place = trains() && mesh.world().device().is_cpu() && mesh.shard().shared_memory(1).defined();
  for (const Parameter& one : parameters_) {
    if (!in_place || !held(one) || one.parameter->trainable || !use_in_place(*one.parameter, source)) continue;
    whole.insert(one.parameter);
    tensors.push_back(whole_tensor(one));
  }
  std::vector<UnitPlan> units =
      mesh.pipeline().size() == 1 ? plan_units(model, options) : units_of_stage(model, options);
  for (UnitPlan& unit : units)
    std::erase_if(unit.parameters, [&](const nn::ParameterPtr& p) { return whole.count(p) != 0; });
  units_ = std::make_unique<ShardedUnits>(units, tied, mesh, precision, options, source);
  units_->append_logical_tensors(tensors);
  list(std::move(tensors), units_->home());
}

void ShardedWeights::end() {
  units_->end();
  check_files();
}

/// The units of this rank's stages, with the parameters it holds. A module that contains blocks is not a unit: part of
/// its forward runs on other ranks, so its backward has no well-defined start. Its other parameters go to the root.
std::vector<UnitPlan> ShardedWeights::units_of_stage(models::Model& model, const config::FsdpConfig& options) const {
  std::set<nn::ParameterPtr> mine;
  for (const Parameter& one : parameters_)
    if (held(one)) mine.insert(one.parameter);
  const std::vector<nn::Module*> blocks = model.blocks();
  const auto around_blocks = [&](const nn::Module& module) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const nn::Module* block) {
      return module.path().empty() || block->path().starts_with(module.path() + ".");
    });
  };
  std::vector<UnitPlan> units;
  UnitPlan root{&model, {}};
  for (UnitPlan& plan : plan_units(model, options)) {
    std::erase_if(plan.parameters, [&](const nn::ParameterPtr& p) { return mine.count(p) == 0; });
    if (around_blocks(*plan.module))
      root.parameters.insert(root.parameters.end(), plan.parameters.begin(), plan.parameters.end());
    else if (!plan.parameters.empty())
      units.push_back(std::move(plan));
  }
  units.push_back(std::move(root));
  return units;
}

}  // namespace trainer::parallel
