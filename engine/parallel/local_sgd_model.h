#pragma once

#include "engine/parallel/parallel_model.h"

namespace trainer::parallel {

/// Local SGD: every rank has the whole model and trains it on its own samples with its own optimizer; every `every`
/// updates, the ranks' weights are averaged. A token has the same weight on every rank, so with plain SGD and every = 1
/// this is DDP. Stich, "Local SGD Converges Fast and Communicates Little" (2019).
class LocalSgdModel : public ParallelModel {
 public:
  /// `weights`: whole, without a gradient exchange.
  LocalSgdModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                std::unique_ptr<Weights> weights, std::unique_ptr<Schedule> schedule, int64_t every);

  /// Each rank clips by its own gradients' norm. Returns the root mean square of the ranks' norms.
  double clip_grad_norm(double max_norm) override;
  void after_update(int64_t step) override;
  void average_replicas(const std::vector<at::Tensor>& state) override;

 protected:
  at::Tensor to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const override;
  std::vector<ScalarSum> gradient_squares() const override;

 private:
  void average(const at::Tensor& tensor);

  int64_t every_;
  bool apart_ = false;  // whether the ranks' weights may differ
};

}  // namespace trainer::parallel
