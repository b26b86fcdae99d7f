#include "engine/parallel/sharded_units.h"

#include <algorithm>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::parallel {

/// The identity, applied to a unit's outputs: its backward runs just before the unit's own. (An identity on the inputs
/// would not work: under LoRA the first block's inputs require no gradient, so it would never run.)
struct UnitBackward : torch::autograd::Function<UnitBackward> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, at::TensorList outputs,
                                                ShardedUnits* units, int64_t use) {
    ctx->saved_data["units"] = reinterpret_cast<int64_t>(units);
    ctx->saved_data["use"] = use;
    return outputs.vec();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto* const units = reinterpret_cast<ShardedUnits*>(ctx->saved_data["units"].toInt());
    units->before_unit_backward(static_cast<size_t>(ctx->saved_data["use"].toInt()));
    grads.resize(grads.size() + 2);  // no gradients for `units` and `use`
    return grads;
  }
};

ShardedUnits::ShardedUnits(const std::vector<UnitPlan>& plans, const StageHolders& holders, const dist::Mesh& mesh,
                           const Precision& precision, const config::FsdpConfig& options, const WeightSource& source)
    : comm_(mesh.shard()),
      backward_prefetch_(options.backward_prefetch),
      keeps_gathered_(options.sharding_strategy == config::ShardingStrategy::kShardGradOp ||
                      options.sharding_strategy == config::ShardingStrategy::kHybridShardZero2) {
  if (options.offload_params && !comm_.device().is_cpu())
    offload_ = std::make_shared<HostOffload>(comm_.device(), options.offload_pin_memory);
  forward_prefetch_ = options.forward_prefetch || comm_.runs_beside() || offload_ != nullptr;
  const size_t root = plans.size() - 1;
  for (size_t i = 0; i <= root; ++i) {
    const std::string name = i == root ? "the root" : plans[i].module->path();
    units_.push_back(std::make_unique<ShardedUnit>(name, plans[i].parameters, holders, mesh, precision, offload_));
    units_.back()->load(source);
    shares_updates_ = shares_updates_ || units_.back()->shares_updates();
  }
  if (std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->shares_memory(); }))
    comm_.barrier();
  root_ = units_.back().get();
  share_gradients();
  for (const auto& unit : units_) unit->when_reducing([this](ShardedUnit& begun) { finish_reduction_before(begun); });
  for (size_t i = 0; i <= root; ++i) {
    around_.push_back(root);
    for (size_t outer = i + 1; outer < root && around_[i] == root; ++outer)
      if (plans[i].module->path().starts_with(plans[outer].module->path() + ".")) around_[i] = outer;
  }
  for (std::vector<size_t>& follower : follower_) follower.assign(units_.size(), root);  // unknown so far
  awaited_.assign(units_.size(), 0);
  for (size_t i = 0; i < root; ++i) {
    plans[i].module->wrap([this, i](const nn::RowsList& x, const nn::Pass& pass, const nn::Module::Forward& next) {
      return run_unit(i, x, pass, next);
    });
    if (backward_prefetch_ == config::BackwardPrefetch::kPost)
      units_[i]->when_reduced([this] { gather_ahead_of_backward(); });
  }
}

/// The same on all ranks, as units and their groups are.
void ShardedUnits::share_gradients() {
  int64_t most = 0;
  for (const auto& unit : units_)
    if (unit.get() != root_) most = std::max(most, unit->sharable_gradient_bytes());
  const int64_t of_root = root_->sharable_gradient_bytes();
  if (most + of_root == 0) return;
  shared_gradients_ = std::make_shared<SharedGradients>(comm_, of_root, most);
  for (const auto& unit : units_) unit->share_gradients(shared_gradients_);
}

void ShardedUnits::append_logical_tensors(std::vector<LogicalTensor>& to) const {
  for (const auto& unit : units_) unit->append_logical_tensors(to);
}

nn::RowsList ShardedUnits::run_unit(size_t index, const nn::RowsList& inputs, const nn::Pass& pass,
                                    const nn::Module::Forward& next) {
  ShardedUnit& unit = *units_[index];
  unit.wait_gathered();
  if (!in_backward_) gather_ahead(index);
  nn::RowsList outputs = next(inputs, pass);
  const bool needed_again = mark_outputs(index, outputs) && keeps_gathered_;
  if (!needed_again) unit.free();
  return outputs;
}

/// Records which unit follows which, and starts gathering the unit that followed this one last time.
void ShardedUnits::gather_ahead(size_t index) {
  const size_t root = units_.size() - 1;
  std::vector<size_t>& follower = follower_[learning_ ? 1 : 0];
  if (before_this_ != root) follower[before_this_] = index;
  before_this_ = index;
  if (forward_prefetch_ && follower[index] != root) units_[follower[index]]->start_gather();
}

/// Attaches the backward hook to a unit's outputs. Returns whether a backward will reach them.
bool ShardedUnits::mark_outputs(size_t index, nn::RowsList& outputs) {
  if (!at::GradMode::is_enabled()) return false;
  std::vector<at::Tensor> differentiable;
  for (const nn::Rows& out : outputs)
    if (out.x.defined() && out.x.requires_grad()) differentiable.push_back(out.x);
  if (differentiable.empty()) return false;
  const auto marked =
      UnitBackward::apply(at::TensorList(differentiable), this, static_cast<int64_t>(pass_->uses.size()));
  pass_->uses.push_back({index, in_backward_ ? begun_ + 1 : 0});
  ++pass_->uses_left[index];
  ++awaited_[index];
  size_t i = 0;
  for (nn::Rows& out : outputs)
    if (out.x.defined() && out.x.requires_grad()) out.x = marked[i++];
  return true;
}

bool ShardedUnits::encloses(size_t outer, size_t inner) const {
  for (size_t unit = inner; unit + 1 < units_.size(); unit = around_[unit])
    if (unit == outer) return true;
  return false;
}

// Note [Order of backward]
// The engine runs the most recently created ready node. Of two consecutive units, all nodes of the second were created
// after the identity of the first. So when this identity runs, all units whose backward has begun are finished, except
// the enclosing ones, and can be freed. (Their gradients were reduced when their last leaf was done, or are reduced
// now.) So besides the root, at most this unit, its enclosing units and the prefetched one are gathered at any time.
// A recomputed region runs its own backward within that of the pass: its leaves get their gradients after all of it
// (Note [Recomputation]), so nothing is reduced earlier.
void ShardedUnits::before_unit_backward(size_t use) {
  const auto [index, region] = pass_->uses[use];
  current_use_ = use;
  ++begun_;
  --pass_->uses_left[index];
  --awaited_[index];
  std::erase_if(open_, [&, index = index, region = region](size_t other) {
    if (encloses(other, index)) return false;
    if (region == 0 && pass_->uses_left[other] == 0) units_[other]->finish_backward();
    free_used(other);
    return true;
  });
  units_[index]->begin_backward();
  if (std::find(open_.begin(), open_.end(), index) == open_.end()) open_.push_back(index);
  if (backward_prefetch_ == config::BackwardPrefetch::kPre) gather_ahead_of_backward();
}

/// Starts gathering the unit whose backward comes next.
void ShardedUnits::gather_ahead_of_backward() {
  if (!in_backward_ || current_use_ == 0 || pass_->uses.empty()) return;
  const ForwardPass::Use &now = pass_->uses[current_use_], &next = pass_->uses[current_use_ - 1];
  if (next.region == now.region) units_[next.unit]->start_gather();
}

/// Frees a unit, unless it is kept for a backward still to come.
void ShardedUnits::free_used(size_t index) {
  if (!keeps_gathered_ || awaited_[index] == 0) units_[index]->free();
}

// Note [Barriers around shared weights]
// If ranks read each other's shards in place, all must be loaded, and all updates written, before any rank reads them,
// and all ranks must have read them before any rank writes the next update.
void ShardedUnits::wait_for_updates() {
  if (!shares_updates_) return;
  comm_.barrier();
  if (shared_gradients_) shared_gradients_->passed_collective();
}

void ShardedUnits::begin() {
  wait_for_updates();
  root_->wait_gathered();
}

void ShardedUnits::end() {
  wait_for_updates();
  for (const auto& unit : units_) unit->free();
  std::fill(awaited_.begin(), awaited_.end(), 0);
  pass_.reset();
}

ForwardPassPtr ShardedUnits::begin_forward() {
  learning_ = at::GradMode::is_enabled();
  before_this_ = units_.size() - 1;
  pass_ = std::make_shared<ForwardPass>(units_.size());
  return pass_;
}

void ShardedUnits::begin_backward(ForwardPassPtr pass) {
  pass_ = std::move(pass);
  in_backward_ = true;
  begun_ = 0;
  current_use_ = pass_->uses.size();
  root_->begin_backward();
  const bool ahead = backward_prefetch_ == config::BackwardPrefetch::kPre && !pass_->uses.empty();
  if (ahead) units_[pass_->uses.back().unit]->start_gather();
}

/// Two units' gradients are in memory at most: those being computed and those being reduced.
void ShardedUnits::finish_reduction_before(ShardedUnit& begun) {
  if (reducing_ != nullptr && reducing_ != &begun) reducing_->finish_reduction();
  reducing_ = &begun;
}

void ShardedUnits::end_backward() {
  in_backward_ = false;
  for (const auto& unit : units_) unit->finish_backward();
  for (const auto& unit : units_) unit->finish_reduction();
  reducing_ = nullptr;
  for (size_t i = 0; i < units_.size(); ++i) awaited_[i] -= pass_->uses_left[i];  // outputs that were not used
  for (const size_t unit : open_) free_used(unit);
  open_.clear();
}

void ShardedUnits::drop_gradients() {
  for (const auto& unit : units_) unit->drop_gradients();
}

void ShardedUnits::reduce_replicas() {
  for (const auto& unit : units_) unit->reduce_replicas();
  if (offload_) offload_->wait();
  for (const auto& unit : units_) unit->reduce_partial();
}

}  // namespace trainer::parallel
