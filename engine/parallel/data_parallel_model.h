#pragma once

#include <vector>

#include "engine/parallel/replicated_model.h"

namespace trainer::parallel {

/// One process, several devices: each device has a replica of the model, run by its own thread. The micro-batches of an
/// update are distributed over the replicas, and gradients are summed on the first (torch.nn.DataParallel). On a single
/// device, as with `devices: [cpu, cpu]`, the replicas share the weights and only have separate gradients.
class DataParallelModel : public ReplicatedModel {
 public:
  /// `replicas`: the models of the other devices.
  DataParallelModel(std::unique_ptr<models::Model> model, std::vector<std::unique_ptr<models::Model>> replicas,
                    dist::MeshPtr mesh, Precision precision);

  double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass) override;

  /// Bytes of gradients copied to the first device in every update.
  int64_t gradient_bytes() const;

 protected:
  void load_values(const WeightSource& source) override;

 private:
  std::vector<std::unique_ptr<models::Model>> replicas_;
  std::vector<std::vector<nn::ParameterPtr>> trained_;  // of each replica, in the first model's order
};

}  // namespace trainer::parallel
