#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/parallel/flat_group.h"
#include "models/nn/module.h"

namespace trainer::parallel {

/// A part of the model that is gathered, used and freed together: a wrapped block, or the root for what is left.
class ShardedUnit {
 public:
  /// Splits `parameters` into flat groups. Weights have their dtype from `source`, values come with load().
  ShardedUnit(std::string name, const std::vector<nn::ParameterPtr>& parameters, const StageHolders& holders,
              const dist::Mesh& mesh, const Precision& precision, const WeightSource& source);

  void load(const WeightSource& source);
  void start_gather();
  void wait_gathered();
  void free();
  /// Called whenever this unit's gradients are complete and reduced.
  void when_reduced(std::function<void()> then) { when_reduced_ = std::move(then); }

  /// Before this unit's backward: values and zero gradients are there; from now on its leaves are counted.
  void begin_backward();
  /// Reduces if the last leaf has not done so already. Collective.
  void finish_backward();
  /// After the last backward of an update, whether or not this unit had a part in it. Collective.
  void sum_copies();

  void append_logical_tensors(std::vector<LogicalTensor>& to) const;
  const std::string& name() const { return name_; }
  bool shares_memory() const;

 private:
  void leaf_done();

  std::string name_;
  std::vector<FlatGroup> groups_;
  int64_t leaves_ = 0, leaves_left_ = 0;
  bool in_backward_ = false;
  std::function<void()> when_reduced_;
};

}  // namespace trainer::parallel
