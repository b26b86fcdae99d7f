#pragma once

#include <array>

#include "engine/config/sections.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/sharded_unit.h"

namespace trainer::parallel {

/// Parameters, gradients and optimiser state spread over ranks (FSDP). Under FULL_SHARD a unit's values exist whole
/// only around its forward and its backward; under SHARD_GRAD_OP from its forward to the end of its backward. The
/// HYBRID strategies are the same over the mesh's shard axis; copies of the model add up their gradients.
class ShardedModel : public ParallelModel {
 public:
  ShardedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
               config::FsdpConfig options);

  std::vector<LogicalTensor> logical_tensors() override;
  void load(const WeightSource& source) override;

  /// The units: those within another one before it, the root last.
  const std::vector<std::unique_ptr<ShardedUnit>>& units() const { return units_; }

 protected:
  void begin_forward() override;
  void end_forward() override;
  void begin_backward(const at::Tensor& loss, bool last) override;
  void end_backward(bool last) override;

 private:
  /// A unit's forward that a backward will follow.
  struct Use {
    size_t unit;
    int64_t region;  // 0: of the forward pass; else a recomputation within the backward, numbered
  };

  nn::Tensors run_unit(size_t index, const nn::Tensors& inputs, const nn::Pass& pass, const nn::Module::Forward& next);
  void gather_ahead(size_t index);
  bool mark_outputs(size_t index, nn::Tensors& outputs);
  void before_unit_backward(size_t use);
  void gather_ahead_of_backward();
  bool encloses(size_t outer, size_t inner) const;
  friend struct UnitBackward;

  config::FsdpConfig options_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<size_t> around_;  // for each unit the innermost one around it; the root's own number ends the chain
  ShardedUnit* root_ = nullptr;
  bool keeps_gathered_ = false;  // between a forward and its backward
  bool shares_memory_ = false;

  // Which unit's forward begins after which, as it was the last time; without and with gradients.
  std::array<std::vector<size_t>, 2> follower_;
  bool learning_ = false;           // the forward pass under way is with gradients
  size_t before_this_ = 0;          // the unit whose forward began last; the root: none
  std::vector<Use> uses_;           // in the order in which the forwards ended
  std::vector<int64_t> uses_left_;  // of each unit, whose backward has not begun
  // Of the backward pass under way.
  bool in_backward_ = false;
  std::vector<size_t> open_;  // units whose backward has begun and that are not freed
  size_t current_use_ = 0;    // the last one whose backward began
  int64_t begun_ = 0;         // how many have
};

}  // namespace trainer::parallel
