#pragma once

#include "engine/parallel/sharded_units.h"
#include "engine/parallel/weights.h"

namespace trainer::parallel {

/// The data ranks shard the values of the model, or of their stage, with gradients and optimizer state (FSDP). In a
/// pipeline under FULL_SHARD, every micro-batch gathers a unit for its forward and again for its backward; under
/// SHARD_GRAD_OP, a unit stays gathered while its forwards wait for their backwards. Gradients are summed over the
/// shard group after each backward, and over replicas and the stages of a tied weight once per update. If ranks share
/// memory, they use frozen weights in place, as under DDP.
class ShardedWeights : public Weights {
 public:
  /// Collective. Loads the values from `source`.
  ShardedWeights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
                 const Precision& precision, const config::FsdpConfig& options, const WeightSource& source);

  void begin() override { units_->begin(); }
  void end() override;
  ForwardPassPtr begin_forward() override { return units_->begin_forward(); }
  void begin_backward(ForwardPassPtr pass) override { units_->begin_backward(std::move(pass)); }
  void end_backward() override { units_->end_backward(); }
  void drop_gradients() override { units_->drop_gradients(); }

 protected:
  void reduce_in_stage() override { units_->reduce_replicas(); }

 private:
  std::vector<UnitPlan> units_of_stage(models::Model& model, const config::FsdpConfig& options) const;

  std::unique_ptr<ShardedUnits> units_;
};

}  // namespace trainer::parallel
