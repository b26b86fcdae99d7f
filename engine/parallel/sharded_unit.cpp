#include "engine/parallel/sharded_unit.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/dist/after_gradient.h"
#include "engine/dist/phase.h"

namespace trainer::parallel {
namespace {

bool cut_unevenly(const nn::Parameter& parameter, int64_t ranks) {
  int64_t whole = 1;
  for (const int64_t size : parameter.whole_shape()) whole *= size;
  return !parameter.part.whole() && parameter.numel() * ranks != whole;
}

}  // namespace

ShardedUnit::ShardedUnit(std::string name, const std::vector<nn::ParameterPtr>& parameters, const StageHolders& holders,
                         const dist::Mesh& mesh, const Precision& precision,
                         const std::shared_ptr<HostOffload>& offload)
    : name_(std::move(name)) {
  std::vector<std::pair<GroupKind, std::vector<nn::ParameterPtr>>> kinds;
  for (const nn::ParameterPtr& p : parameters) {
    const auto stages = holders.find(p);
    const GroupKind kind{p->storage, p->trainable ? precision.compute_dtype(*p) : p->storage, p->trainable,
                         cut_unevenly(*p, mesh.tensor().size()),
                         stages == holders.end() ? std::set<int>{} : stages->second};
    auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, {}});
    found->second.push_back(p);
  }
  for (auto& [kind, members] : kinds) groups_.emplace_back(kind, std::move(members), mesh, precision.reduce, offload);
  for (FlatGroup& group : groups_) {
    if (!group.trainable()) continue;
    for (const at::Tensor& leaf : group.views()) {
      dist::after_gradient(leaf, [this] { leaf_done(); });
      ++leaves_;
    }
  }
}

void ShardedUnit::load(const WeightSource& source) {
  for (FlatGroup& group : groups_) group.load(source);
}

int64_t ShardedUnit::sharable_gradient_bytes() const {
  int64_t most = 0;
  for (const FlatGroup& group : groups_) most = std::max(most, group.sharable_gradient_bytes());
  return most;
}

void ShardedUnit::share_gradients(const std::shared_ptr<SharedGradients>& memory) {
  const int64_t most = sharable_gradient_bytes();
  const auto largest = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const FlatGroup& group) { return group.sharable_gradient_bytes() == most; });
  if (most > 0) largest->share_gradients(memory);
}

void ShardedUnit::start_gather() {
  const dist::Phase phase(name_);
  for (FlatGroup& group : groups_) group.start_gather();
}

void ShardedUnit::wait_gathered() {
  const dist::Phase phase(name_);
  for (FlatGroup& group : groups_) group.wait_gathered();
}

void ShardedUnit::free() {
  for (FlatGroup& group : groups_) group.free();
}

void ShardedUnit::begin_backward() {
  wait_gathered();
  if (in_backward_) return;
  in_backward_ = true;
  leaves_left_ = leaves_;
  for (FlatGroup& group : groups_) group.begin_grads();
}

void ShardedUnit::leaf_done() {
  if (!in_backward_) throw InternalError("a gradient of {} arrived after the reduction", name_);
  if (--leaves_left_ > 0) return;
  finish_backward();
  if (when_reduced_) when_reduced_();
}

void ShardedUnit::finish_backward() {
  if (!in_backward_) return;
  in_backward_ = false;
  const dist::Phase phase(name_);
  for (FlatGroup& group : groups_) group.start_reduction();
  if (when_reducing_) when_reducing_(*this);
}

void ShardedUnit::finish_reduction() {
  for (FlatGroup& group : groups_) group.finish_reduction();
}

void ShardedUnit::reduce_replicas() {
  const dist::Phase phase(name_);
  for (FlatGroup& group : groups_) group.reduce_replicas();
}

void ShardedUnit::reduce_partial() {
  const dist::Phase phase(name_);
  for (FlatGroup& group : groups_) group.reduce_partial();
}

void ShardedUnit::drop_gradients() {
  for (FlatGroup& group : groups_) group.drop_gradients();
}

void ShardedUnit::append_logical_tensors(std::vector<LogicalTensor>& to) const {
  for (const FlatGroup& group : groups_) group.append_logical_tensors(to);
}

bool ShardedUnit::shares_memory() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const FlatGroup& g) { return g.shares_memory(); });
}

bool ShardedUnit::shares_updates() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const FlatGroup& g) { return g.trainable() && g.shares_memory(); });
}

}  // namespace trainer::parallel
