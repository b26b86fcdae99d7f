#include "engine/parallel/sharded_model.h"

#include <algorithm>
#include <map>
#include <set>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/parallel/wrap_policy.h"

namespace trainer::parallel {

/// The identity, on a unit's outputs: its backward runs just before the unit's own. (An identity on the inputs would
/// not do: under LoRA the first block's inputs need no gradient, so it would never run.)
struct UnitBackward : torch::autograd::Function<UnitBackward> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, at::TensorList outputs,
                                                ShardedModel* model, int64_t index) {
    ctx->saved_data["model"] = reinterpret_cast<int64_t>(model);
    ctx->saved_data["index"] = index;
    return outputs.vec();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto* const model = reinterpret_cast<ShardedModel*>(ctx->saved_data["model"].toInt());
    model->before_unit_backward(static_cast<size_t>(ctx->saved_data["index"].toInt()));
    grads.resize(grads.size() + 2);  // nothing for `model` and `index`
    return grads;
  }
};

ShardedModel::ShardedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                           config::FsdpConfig options)
    : ParallelModel(std::move(model), std::move(mesh), precision), options_(std::move(options)) {}

void ShardedModel::load(const WeightSource& source) {
  const std::vector<nn::Module*> wrapped = units_to_wrap(model(), options_);
  std::set<nn::ParameterPtr> taken;
  const auto make_unit = [&](const std::string& name, nn::Module& module) {
    std::vector<nn::ParameterPtr> own;
    for (const nn::ParameterPtr& p : module.all_parameters())
      if (taken.insert(p).second) own.push_back(p);
    auto unit = std::make_unique<ShardedUnit>(name, own, mesh(), precision(), source);
    unit->load(source);
    return unit;
  };
  std::vector<nn::Module*> inner_first(wrapped.rbegin(), wrapped.rend());  // a nested unit takes its parameters first
  for (nn::Module* module : inner_first) units_.push_back(make_unit(module->path(), *module));
  std::reverse(units_.begin(), units_.end());
  units_.push_back(make_unit("the root", model()));
  root_ = units_.back().get();
  shares_memory_ = std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->shares_memory(); });
  for (size_t i = 0; i < wrapped.size(); ++i)
    wrapped[i]->wrap([this, i](const nn::Tensors& x, const nn::Pass& pass, const nn::Module::Forward& next) {
      return run_unit(i, x, pass, next);
    });
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
  if (options_.forward_prefetch && index + 2 < units_.size()) units_[index + 1]->start_gather();
  nn::Tensors outputs = next(inputs, pass);
  std::vector<at::Tensor> differentiable;
  for (const at::Tensor& out : outputs)
    if (out.defined() && out.requires_grad()) differentiable.push_back(out);
  if (!differentiable.empty() && at::GradMode::is_enabled()) {
    const auto marked = UnitBackward::apply(at::TensorList(differentiable), this, static_cast<int64_t>(index));
    size_t i = 0;
    for (at::Tensor& out : outputs)
      if (out.defined() && out.requires_grad()) out = marked[i++];
  }
  const bool needed_again = options_.sharding_strategy == config::ShardingStrategy::kShardGradOp;
  if (!needed_again || !at::GradMode::is_enabled()) unit.free();
  return outputs;
}

// Note [Order of backward]
// The engine runs the ready node that was made last. All nodes of unit i+1 were made after the identity of unit i, so
// when that one runs, everything of unit i+1 has run and its values can go. (Its gradients were reduced when its last
// leaf was done, or are now.) So at most this unit and the prefetched one are whole at any time, beside the root.
void ShardedModel::before_unit_backward(size_t index) {
  for (size_t later = index + 1; later + 1 < units_.size(); ++later) {
    units_[later]->finish_backward();
    units_[later]->free();
  }
  units_[index]->begin_backward();
  if (options_.backward_prefetch == config::BackwardPrefetch::kPre && index > 0) units_[index - 1]->start_gather();
}

// Note [Barriers around shared weights]
// Where ranks read each other's shards in place, all updates must be written before anyone reads them, and all must
// have read them before anyone writes the next.
void ShardedModel::begin_forward() {
  if (shares_memory_) comm().barrier();
  root_->wait_gathered();
}

void ShardedModel::end_forward() {
  if (shares_memory_) comm().barrier();
  for (const auto& unit : units_) unit->free();
}

void ShardedModel::begin_backward(bool) {
  root_->begin_backward();
}

void ShardedModel::end_backward(bool) {
  for (const auto& unit : units_) unit->finish_backward();
}

}  // namespace trainer::parallel
