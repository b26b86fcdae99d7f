#pragma once

#include "engine/parallel/parallel_model.h"
#include "engine/parallel/sharded_units.h"

namespace trainer::parallel {

/// Parameters, gradients and optimizer state sharded over ranks (FSDP). The HYBRID strategies shard over the mesh's
/// shard axis and sum gradients over the replicate axis.
class ShardedModel : public ParallelModel {
 public:
  ShardedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
               config::FsdpConfig options);

 protected:
  void load_values(const WeightSource& source) override;
  std::vector<LogicalTensor> list_tensors() override;
  void begin_forward() override;
  void end_forward() override;
  void begin_backward(const at::Tensor& loss, bool last) override;
  void end_backward(bool last) override;

 private:
  config::FsdpConfig options_;
  std::unique_ptr<ShardedUnits> units_;
  ShardedUnits::ForwardPassPtr pass_;  // the current one
};

}  // namespace trainer::parallel
