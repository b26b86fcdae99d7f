#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/parallel/logical_tensor.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/pipeline_stages.h"
#include "engine/parallel/sharded_units.h"

namespace trainer::parallel {

/// A pipeline rank's part of a model: the parameters of its own stages, and their gradients. The calls are those of
/// ShardedUnits; most do nothing if a rank holds its stages whole.
class StageWeights {
 public:
  /// Collective. `mesh` outlives this.
  StageWeights(models::DecoderModel& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
               Precision precision);
  virtual ~StageWeights() = default;

  /// Collective, once before anything else: loads the values from `source`.
  virtual void load(const WeightSource& source) = 0;
  /// Includes the other ranks' parameters, with an empty shard.
  std::vector<LogicalTensor> list_tensors();

  virtual void begin() {}
  virtual ShardedUnits::ForwardPassPtr begin_forward() { return nullptr; }
  virtual void begin_backward(ShardedUnits::ForwardPassPtr pass) {}
  virtual void end_backward() {}
  virtual void end() {}
  /// Collective, after the last backward of an update: completes the sums over ranks, and sums the gradients of tied
  /// weights over the stages that hold them. `tensors`: as list_tensors() made them.
  void reduce_gradients(const std::vector<LogicalTensor>& tensors);

 protected:
  struct Parameter {
    nn::ParameterPtr parameter;
    std::set<int> holders;
    at::ScalarType dtype = at::kFloat;  // of its values, if this rank holds it
    dist::Comm* holding = nullptr;      // the group of its holders, if this rank is one of several
  };
  bool held(const Parameter& parameter) const { return parameter.holders.count(mesh_.pipeline().rank()) != 0; }

  /// The tensors of this rank's parameters, in any order, ignoring other stages that hold them.
  virtual std::vector<LogicalTensor> held_tensors() = 0;
  /// Sums gradients over the ranks of this stage.
  virtual void reduce_in_stage() = 0;

  const dist::Mesh& mesh_;
  const Precision precision_;
  std::vector<Parameter> parameters_;  // of the whole model

 private:
  dist::Comm& group_of(const std::set<int>& stages);

  std::map<std::set<int>, std::unique_ptr<dist::Comm>> groups_;  // groups of stages that hold the same weight
};

}  // namespace trainer::parallel
