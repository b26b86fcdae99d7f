#pragma once

#include "engine/parallel/schedule.h"

namespace trainer::parallel {

/// One process, several devices: each device has a replica of the model, run by its own thread. The micro-batches of an
/// update are distributed over the replicas, and gradients are summed on the first (torch.nn.DataParallel). On a single
/// device, as with `devices: [cpu, cpu]`, the replicas share the weights and only have separate gradients.
class ThreadedSchedule : public Schedule {
 public:
  /// `replicas`: the models of the other devices, without values.
  ThreadedSchedule(models::Model& model, dist::MeshPtr mesh, Weights& weights,
                   std::vector<std::unique_ptr<models::Model>> replicas);

  ScalarSum update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass, const Root& root) override;
  int64_t copied_gradient_bytes() const override;

 private:
  void add_gradients_of_replicas();

  std::vector<std::unique_ptr<models::Model>> replicas_;
  std::vector<std::vector<nn::ParameterPtr>> trained_;  // of each replica, in the first model's order
};

}  // namespace trainer::parallel
