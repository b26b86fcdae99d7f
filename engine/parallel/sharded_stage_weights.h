#pragma once

#include "engine/parallel/stage_weights.h"

namespace trainer::parallel {

/// The data ranks of a stage shard its values, gradients and optimizer state (FSDP in a pipeline). Under FULL_SHARD,
/// every micro-batch gathers a unit for its forward and again for its backward; under SHARD_GRAD_OP, a unit stays
/// gathered while its forwards wait for their backwards. Gradients are summed over the shard group after each backward,
/// and over replicas and the stages of a tied weight once per update.
class ShardedStageWeights : public StageWeights {
 public:
  ShardedStageWeights(models::DecoderModel& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
                      Precision precision, config::FsdpConfig options);
  void load(const WeightSource& source) override;

  void begin() override { units_->begin(); }
  ShardedUnits::ForwardPassPtr begin_forward() override { return units_->begin_forward(); }
  void begin_backward(ShardedUnits::ForwardPassPtr pass) override { units_->begin_backward(std::move(pass)); }
  void end_backward() override { units_->end_backward(); }
  void end() override { units_->end(); }

 protected:
  std::vector<LogicalTensor> held_tensors() override;
  void reduce_in_stage() override { units_->reduce_replicas(); }

 private:
  std::vector<UnitPlan> own_units();

  models::DecoderModel& model_;
  const config::FsdpConfig options_;
  std::unique_ptr<ShardedUnits> units_;
};

}  // namespace trainer::parallel
