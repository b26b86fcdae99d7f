#pragma once

#include "engine/config/sections.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/sharded_unit.h"

namespace trainer::parallel {

/// Parameters, gradients and optimiser state spread over ranks (FSDP). Under FULL_SHARD a unit's values exist whole
/// only around its forward and its backward; under SHARD_GRAD_OP from its forward to the end of its backward.
class ShardedModel : public ParallelModel {
 public:
  ShardedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
               config::FsdpConfig options);

  std::vector<LogicalTensor> logical_tensors() override;
  void load(const WeightSource& source) override;

  /// The units, the root last.
  const std::vector<std::unique_ptr<ShardedUnit>>& units() const { return units_; }

 protected:
  void begin_forward() override;
  void end_forward() override;
  void begin_backward(bool last) override;
  void end_backward(bool last) override;

 private:
  nn::Tensors run_unit(size_t index, const nn::Tensors& inputs, const nn::Pass& pass, const nn::Module::Forward& next);
  void before_unit_backward(size_t index);
  friend struct UnitBackward;

  config::FsdpConfig options_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;  // in forward order; the root is the last
  ShardedUnit* root_ = nullptr;
  bool shares_memory_ = false;
};

}  // namespace trainer::parallel
