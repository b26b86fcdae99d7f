#pragma once

#include <array>
#include <memory>

#include "engine/config/sections.h"
#include "engine/parallel/sharded_unit.h"
#include "engine/parallel/wrap_policy.h"

namespace trainer::parallel {

/// The units of a model, or of what this rank holds of it: when each is gathered, freed, and its gradients reduced.
/// Under FULL_SHARD a unit's values exist whole only around its forward and its backward; under SHARD_GRAD_OP from its
/// first forward whose backward is still to come to the end of the last such backward. The root is whole from begin()
/// to end().
class ShardedUnits {
 public:
  /// What one forward pass did, for its backward. Any number of them may be waiting for theirs.
  class ForwardPass;
  using ForwardPassPtr = std::shared_ptr<ForwardPass>;

  /// Loads the values from `source`, and wraps the modules of `plans`: those within another one before it, the root
  /// last.
  ShardedUnits(const std::vector<UnitPlan>& plans, const StageHolders& holders, const dist::Mesh& mesh,
               const Precision& precision, const config::FsdpConfig& options, const WeightSource& source);

  /// Around an update, or a forward pass without gradients. Collective, as all that comes between them, over the ranks
  /// that share the shards.
  void begin();
  void end();
  /// The forward pass that follows.
  ForwardPassPtr begin_forward();
  /// Around the backward of `pass`.
  void begin_backward(ForwardPassPtr pass);
  void end_backward();
  /// After the last backward of an update: sums gradients over what holds copies of them. Collective over those too.
  void sum_copies();

  void append_logical_tensors(std::vector<LogicalTensor>& to) const;

 private:
  friend struct UnitBackward;

  nn::Tensors run_unit(size_t index, const nn::Tensors& inputs, const nn::Pass& pass, const nn::Module::Forward& next);
  void gather_ahead(size_t index);
  bool mark_outputs(size_t index, nn::Tensors& outputs);
  void before_unit_backward(size_t use);
  void gather_ahead_of_backward();
  void free_used(size_t index);
  bool encloses(size_t outer, size_t inner) const;

  dist::Comm& comm_;  // of the ranks that share the shards
  config::BackwardPrefetch backward_prefetch_;
  bool forward_prefetch_;
  bool keeps_gathered_;  // between a forward and its backward
  bool shares_memory_ = false;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<size_t> around_;  // for each unit the innermost one around it; the root's own number ends the chain
  ShardedUnit* root_ = nullptr;

  // Which unit's forward begins after which, as it was the last time; without and with gradients.
  std::array<std::vector<size_t>, 2> follower_;
  bool learning_ = false;         // the forward pass under way is with gradients
  size_t before_this_ = 0;        // the unit whose forward began last; the root: none
  ForwardPassPtr pass_;           // the one under way, or whose backward is
  std::vector<int64_t> awaited_;  // of each unit, forwards of all passes whose backward has not begun
  // Of the backward pass under way.
  bool in_backward_ = false;
  std::vector<size_t> open_;  // units whose backward has begun and that are not freed
  size_t current_use_ = 0;    // the last one whose backward began
  int64_t begun_ = 0;         // how many have
};

}  // namespace trainer::parallel
