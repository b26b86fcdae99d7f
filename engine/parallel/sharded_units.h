#pragma once

#include <array>
#include <memory>

#include "engine/config/sections/distributed.h"
#include "engine/parallel/forward_pass.h"
#include "engine/parallel/sharded_unit.h"
#include "engine/parallel/wrap_policy.h"

namespace trainer::parallel {

/// The units of a model, or of this rank's part of it: decides when each is gathered, freed, and its gradients reduced.
/// Under FULL_SHARD, a unit is gathered only around its forward and its backward; under SHARD_GRAD_OP, from the first
/// forward that waits for a backward to the end of the last such backward. The root is gathered from begin() to end().
class ShardedUnits {
 public:
  /// Loads the values from `source` and wraps the modules of `plans`: inner modules before outer ones, the root last.
  ShardedUnits(const std::vector<UnitPlan>& plans, const StageHolders& holders, const dist::Mesh& mesh,
               const Precision& precision, const config::FsdpConfig& options, const WeightSource& source);

  /// Called around an update, or around a forward pass without gradients. These and all calls between them are
  /// collectives over the shard group.
  void begin();
  void end();
  /// Starts a forward pass. Any number of them may wait for their backward.
  ForwardPassPtr begin_forward();
  /// Called around the backward of `pass`.
  void begin_backward(ForwardPassPtr pass);
  void end_backward();
  /// Call after the last backward of an update: sums gradients over the replicate group, over which it is collective
  /// too. With offload, gradients are in the host's memory afterwards.
  void reduce_replicas();
  /// The gradients of the next backward replace these.
  void drop_gradients();

  /// Where shards stay: the device, or the host with offload.
  at::Device home() const { return offload_ ? offload_->home() : comm_.device(); }

  void append_logical_tensors(std::vector<LogicalTensor>& to) const;

 private:
  friend struct UnitBackward;

  void share_gradients();
  void wait_for_updates();
  nn::RowsList run_unit(size_t index, const nn::RowsList& inputs, const nn::Pass& pass,
                        const nn::Module::Forward& next);
  void gather_ahead(size_t index);
  bool mark_outputs(size_t index, nn::RowsList& outputs);
  void before_unit_backward(size_t use);
  void gather_ahead_of_backward();
  void free_used(size_t index);
  void finish_reduction_before(ShardedUnit& begun);
  bool encloses(size_t outer, size_t inner) const;

  dist::Comm& comm_;  // the shard group
  config::BackwardPrefetch backward_prefetch_;
  /// Always where gathers run beside the operators: they cost no time of the operators'.
  bool forward_prefetch_ = false;
  bool keeps_gathered_;  // between a forward and its backward
  bool shares_updates_ = false;
  std::shared_ptr<SharedGradients> shared_gradients_;  // null: ranks send their gradients
  std::shared_ptr<HostOffload> offload_;               // null: shards stay on the device
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<size_t> around_;  // per unit: the innermost enclosing unit; the root's index ends the chain
  ShardedUnit* root_ = nullptr;

  // Which unit's forward followed which last time; without and with gradients.
  std::array<std::vector<size_t>, 2> follower_;
  bool learning_ = false;         // whether the current forward pass has gradients
  size_t before_this_ = 0;        // the unit whose forward began last; the root: none
  ForwardPassPtr pass_;           // the pass whose forward or backward is running
  std::vector<int64_t> awaited_;  // per unit: forwards of all passes whose backward has not begun
  // State of the current backward pass.
  bool in_backward_ = false;
  std::vector<size_t> open_;         // units whose backward has begun and that aren't freed yet
  size_t current_use_ = 0;           // the use whose backward began last
  int64_t begun_ = 0;                // number of uses whose backward has begun
  ShardedUnit* reducing_ = nullptr;  // whose reduction began last in this backward pass
};

}  // namespace trainer::parallel
