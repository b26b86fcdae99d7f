#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/parallel/flat_group.h"
#include "models/nn/module.h"

namespace trainer::parallel {

/// A part of the model that is gathered, used and freed together: a wrapped block, or the root with everything else.
class ShardedUnit {
 public:
  /// Splits `parameters`, whose storage is set, into flat groups. load() sets their values. `offload`: null without.
  ShardedUnit(std::string name, const std::vector<nn::ParameterPtr>& parameters, const StageHolders& holders,
              const dist::Mesh& mesh, const Precision& precision, const std::shared_ptr<HostOffload>& offload);

  void load(const WeightSource& source);
  /// Of its largest group of gradients (FlatGroup::sharable_gradient_bytes), which share_gradients() applies to.
  int64_t sharable_gradient_bytes() const;
  void share_gradients(const std::shared_ptr<SharedGradients>& memory);
  void start_gather();
  void wait_gathered();
  void free();
  /// Sets a callback for each time this unit's gradients are complete and reduced.
  void when_reduced(std::function<void()> then) { when_reduced_ = std::move(then); }

  /// Sets a callback for each time the reduction of this unit's gradients has begun.
  void when_reducing(std::function<void(ShardedUnit&)> then) { when_reducing_ = std::move(then); }

  /// Called before this unit's backward: provides values and zero gradients, and starts counting leaves.
  void begin_backward();
  /// Reduces, unless the last leaf already did. Collective.
  void finish_backward();
  /// Returns when the reduced gradients can be used.
  void finish_reduction();
  /// Called after the last backward of an update, even if this unit took no part in it. Collective; in this order.
  void reduce_replicas();
  void reduce_partial();
  /// The gradients of the next backward replace these.
  void drop_gradients();

  void append_logical_tensors(std::vector<LogicalTensor>& to) const;
  const std::string& name() const { return name_; }
  /// Whether ranks read each other's shards in place, and whether updates change some of these.
  bool shares_memory() const;
  bool shares_updates() const;

 private:
  void leaf_done();

  std::string name_;
  std::vector<FlatGroup> groups_;
  int64_t leaves_ = 0, leaves_left_ = 0;
  bool in_backward_ = false;
  std::function<void()> when_reduced_;
  std::function<void(ShardedUnit&)> when_reducing_;
};

}  // namespace trainer::parallel
