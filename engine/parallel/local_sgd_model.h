#pragma once

#include "engine/parallel/replicated_model.h"

namespace trainer::parallel {

/// Local SGD: the whole model on every rank, trained alone on its own samples with its own optimiser; every `every`
/// updates the ranks' weights are averaged. A token weighs the same on every rank, so that with plain SGD and every = 1
/// this is DDP. Stich, "Local SGD Converges Fast and Communicates Little" (2019).
class LocalSgdModel : public ReplicatedModel {
 public:
  LocalSgdModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision, int64_t every);

  /// Each rank clips by the norm of its own gradients. Returns the root of the mean of their squares.
  double clip_grad_norm(double max_norm) override;
  void after_update(int64_t step) override;
  void bring_together(const std::vector<at::Tensor>& state) override;

 protected:
  bool exchanges_gradients() const override { return false; }
  at::Tensor to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const override;

 private:
  void average(const at::Tensor& tensor);

  int64_t every_;
  bool apart_ = false;  // the ranks' weights may differ
};

}  // namespace trainer::parallel
