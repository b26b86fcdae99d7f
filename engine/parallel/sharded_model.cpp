#include "engine/parallel/sharded_model.h"

#include <algorithm>
#include <map>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/parallel/wrap_policy.h"

namespace trainer::parallel {

/// The identity, on a unit's outputs: its backward runs just before the unit's own. (An identity on the inputs would
/// not do: under LoRA the first block's inputs need no gradient, so it would never run.)
struct UnitBackward : torch::autograd::Function<UnitBackward> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, at::TensorList outputs,
                                                ShardedModel* model, int64_t use) {
    ctx->saved_data["model"] = reinterpret_cast<int64_t>(model);
    ctx->saved_data["use"] = use;
    return outputs.vec();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto* const model = reinterpret_cast<ShardedModel*>(ctx->saved_data["model"].toInt());
    model->before_unit_backward(static_cast<size_t>(ctx->saved_data["use"].toInt()));
    grads.resize(grads.size() + 2);  // nothing for `model` and `use`
    return grads;
  }
};

ShardedModel::ShardedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                           config::FsdpConfig options)
    : ParallelModel(std::move(model), std::move(mesh), precision),
      options_(std::move(options)),
      keeps_gathered_(options_.sharding_strategy == config::ShardingStrategy::kShardGradOp ||
                      options_.sharding_strategy == config::ShardingStrategy::kHybridShardZero2) {}

void ShardedModel::load(const WeightSource& source) {
  const std::vector<UnitPlan> plans = plan_units(model(), options_);
  for (const UnitPlan& plan : plans) {
    const std::string name = plan.module == &model() ? "the root" : plan.module->path();
    units_.push_back(std::make_unique<ShardedUnit>(name, plan.parameters, mesh(), precision(), source));
    units_.back()->load(source);
  }
  root_ = units_.back().get();
  shares_memory_ = std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->shares_memory(); });
  const size_t root = units_.size() - 1;
  for (size_t i = 0; i <= root; ++i) {
    around_.push_back(root);
    for (size_t outer = i + 1; outer < root && around_[i] == root; ++outer)
      if (plans[i].module->path().starts_with(plans[outer].module->path() + ".")) around_[i] = outer;
  }
  for (std::vector<size_t>& follower : follower_) follower.assign(units_.size(), root);  // not known yet
  uses_left_.assign(units_.size(), 0);
  for (size_t i = 0; i < root; ++i) {
    plans[i].module->wrap([this, i](const nn::Tensors& x, const nn::Pass& pass, const nn::Module::Forward& next) {
      return run_unit(i, x, pass, next);
    });
    if (options_.backward_prefetch == config::BackwardPrefetch::kPost)
      units_[i]->when_reduced([this] { gather_ahead_of_backward(); });
  }
}

std::vector<LogicalTensor> ShardedModel::logical_tensors() {
  std::vector<LogicalTensor> all;
  for (const auto& unit : units_) unit->append_logical_tensors(all);
  // In the order of the model, as every other strategy lists them.
  std::vector<std::string> order;
  for (const nn::ParameterPtr& p : model().all_parameters()) order.push_back(p->name);
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return place[a.name] < place[b.name]; });
  return all;
}

nn::Tensors ShardedModel::run_unit(size_t index, const nn::Tensors& inputs, const nn::Pass& pass,
                                   const nn::Module::Forward& next) {
  ShardedUnit& unit = *units_[index];
  unit.wait_gathered();
  if (!in_backward_) gather_ahead(index);
  nn::Tensors outputs = next(inputs, pass);
  const bool needed_again = mark_outputs(index, outputs) && keeps_gathered_;
  if (!needed_again) unit.free();
  return outputs;
}

/// Learns which unit follows which, and starts gathering the one that followed this one the last time.
void ShardedModel::gather_ahead(size_t index) {
  const size_t root = units_.size() - 1;
  std::vector<size_t>& follower = follower_[learning_ ? 1 : 0];
  if (before_this_ != root) follower[before_this_] = index;
  before_this_ = index;
  if (options_.forward_prefetch && follower[index] != root) units_[follower[index]]->start_gather();
}

/// Whether a backward will come by here.
bool ShardedModel::mark_outputs(size_t index, nn::Tensors& outputs) {
  if (!at::GradMode::is_enabled()) return false;
  std::vector<at::Tensor> differentiable;
  for (const at::Tensor& out : outputs)
    if (out.defined() && out.requires_grad()) differentiable.push_back(out);
  if (differentiable.empty()) return false;
  const auto marked = UnitBackward::apply(at::TensorList(differentiable), this, static_cast<int64_t>(uses_.size()));
  uses_.push_back({index, in_backward_ ? begun_ + 1 : 0});
  ++uses_left_[index];
  size_t i = 0;
  for (at::Tensor& out : outputs)
    if (out.defined() && out.requires_grad()) out = marked[i++];
  return true;
}

bool ShardedModel::encloses(size_t outer, size_t inner) const {
  for (size_t unit = inner; unit + 1 < units_.size(); unit = around_[unit])
    if (unit == outer) return true;
  return false;
}

// Note [Order of backward]
// The engine runs the ready node that was made last. Of two units that follow each other, all nodes of the second were
// made after the identity of the first. So when that one runs, everything of units whose backward has begun has run,
// but for those around it: their values can go. (Their gradients were reduced when their last leaf was done, or are
// now.) So at most this unit, those around it and the prefetched one are whole at any time, beside the root.
// A recomputed region runs its own backward within that of the pass: its leaves get their gradients after all of it
// (Note [Recomputation]), so nothing is reduced before.
void ShardedModel::before_unit_backward(size_t use) {
  const auto [index, region] = uses_[use];
  current_use_ = use;
  ++begun_;
  --uses_left_[index];
  std::erase_if(open_, [&, index = index, region = region](size_t other) {
    if (encloses(other, index)) return false;
    if (region == 0 && uses_left_[other] == 0) units_[other]->finish_backward();
    units_[other]->free();
    return true;
  });
  units_[index]->begin_backward();
  if (std::find(open_.begin(), open_.end(), index) == open_.end()) open_.push_back(index);
  if (options_.backward_prefetch == config::BackwardPrefetch::kPre) gather_ahead_of_backward();
}

/// Starts gathering the unit whose backward comes next.
void ShardedModel::gather_ahead_of_backward() {
  if (!in_backward_ || current_use_ == 0 || uses_.empty()) return;
  const Use &now = uses_[current_use_], &next = uses_[current_use_ - 1];
  if (next.region == now.region) units_[next.unit]->start_gather();
}

// Note [Barriers around shared weights]
// Where ranks read each other's shards in place, all updates must be written before anyone reads them, and all must
// have read them before anyone writes the next.
void ShardedModel::begin_forward() {
  if (shares_memory_) comm().barrier();
  learning_ = at::GradMode::is_enabled();
  before_this_ = units_.size() - 1;
  root_->wait_gathered();
}

void ShardedModel::end_forward() {
  if (shares_memory_) comm().barrier();
  for (const auto& unit : units_) unit->free();
  uses_.clear();
  std::fill(uses_left_.begin(), uses_left_.end(), 0);
}

void ShardedModel::begin_backward(const at::Tensor&, bool) {
  in_backward_ = true;
  begun_ = 0;
  current_use_ = uses_.size();
  root_->begin_backward();
  const bool ahead = options_.backward_prefetch == config::BackwardPrefetch::kPre && !uses_.empty();
  if (ahead) units_[uses_.back().unit]->start_gather();
}

void ShardedModel::end_backward(bool) {
  in_backward_ = false;
  open_.clear();
  for (const auto& unit : units_) unit->finish_backward();
}

}  // namespace trainer::parallel
