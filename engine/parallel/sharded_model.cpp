#include "engine/parallel/sharded_model.h"

#include <algorithm>
#include <map>

namespace trainer::parallel {

ShardedModel::ShardedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                           config::FsdpConfig options)
    : ParallelModel(std::move(model), std::move(mesh), precision), options_(std::move(options)) {}

void ShardedModel::load_values(const WeightSource& source) {
  units_ = std::make_unique<ShardedUnits>(plan_units(model(), options_), StageHolders{}, mesh(), precision(), options_,
                                          source);
}

std::vector<LogicalTensor> ShardedModel::list_tensors() {
  std::vector<LogicalTensor> all;
  units_->append_logical_tensors(all);
  // In model order, as every other strategy lists them.
  std::map<std::string, size_t> place;
  for (const nn::ParameterPtr& p : model().all_parameters()) place.emplace(p->name, place.size());
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return place[a.name] < place[b.name]; });
  return all;
}

void ShardedModel::begin_forward() {
  units_->begin();
  pass_ = units_->begin_forward();
}

void ShardedModel::end_forward() {
  pass_.reset();
  units_->end();
}

void ShardedModel::begin_backward(const at::Tensor&, bool) {
  units_->begin_backward(pass_);
}

void ShardedModel::end_backward(bool last) {
  units_->end_backward();
  if (last) units_->reduce_replicas();
}

}  // namespace trainer::parallel
