#pragma once

#include <vector>

#include "engine/parallel/replicated_model.h"

namespace trainer::parallel {

/// One process, several devices: each has a replica of the model, run by a thread of its own; the micro-batches of an
/// update are dealt out to them, and their gradients added up on the first (torch.nn.DataParallel). On one device, as
/// `devices: [cpu, cpu]`, the replicas share the weights and only have gradients of their own.
class DataParallelModel : public ReplicatedModel {
 public:
  /// `replicas`: the models of the further devices.
  DataParallelModel(std::unique_ptr<models::Model> model, std::vector<std::unique_ptr<models::Model>> replicas,
                    dist::MeshPtr mesh, Precision precision);

  void load(const WeightSource& source) override;
  double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass) override;

  /// Bytes of gradients that come to the first device in every update.
  int64_t gradient_bytes() const;

 private:
  std::vector<std::unique_ptr<models::Model>> replicas_;
  std::vector<std::vector<nn::ParameterPtr>> trained_;  // of each replica, in the order of the first model's
};

}  // namespace trainer::parallel
