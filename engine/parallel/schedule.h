#pragma once

#include <functional>
#include <vector>

#include "engine/dist/mesh.h"
#include "engine/parallel/sums.h"
#include "engine/parallel/weights.h"
#include "models/model.h"

namespace trainer::parallel {

/// The order in which a rank runs the forwards and backwards of an update. Forward passes without gradients run the
/// whole model on this rank, except in a pipeline.
class Schedule {
 public:
  /// The scalar that the backward of a micro-batch starts from, computed from its sum of losses.
  using Root = std::function<at::Tensor(const at::Tensor& loss_sum)>;

  /// `model` and `weights` outlive this.
  Schedule(models::Model& model, dist::MeshPtr mesh, Weights& weights);
  virtual ~Schedule() = default;

  /// Collective. Forward and backward of this rank's micro-batches; completes the gradients. Returns the sum of losses
  /// that this rank computed.
  virtual ScalarSum update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass, const Root& root) = 0;
  /// Collective over the ranks that work on the same samples, which get the sum of their `losses`.
  virtual double sum_of_parts(double losses) { return mesh_->context().sum(losses); }

  /// Collective over the ranks of a replica, without gradients, between begin() and end() of the weights: the sum of
  /// losses of `batch`, the same on all ranks that work on it.
  virtual double loss_sum(const models::Batch& batch, const nn::Pass& pass);
  /// Likewise the logits of models::Model::logits and decode; undefined on pipeline stages that don't run the head.
  virtual at::Tensor logits(const models::Batch& batch, const nn::Pass& pass);
  virtual at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass);
  /// Likewise the log-probability of each text, [texts] fp64 (models::DecoderModel::log_probs). Not in a pipeline or
  /// with context parallelism.
  at::Tensor log_probs(const models::Batch& batch, const nn::Pass& pass);

  /// Bytes of gradients copied to the first device after the backwards of every update.
  virtual int64_t copied_gradient_bytes() const { return 0; }

 protected:
  /// `batch` with the learned prompt's tokens in front of every sample.
  models::Batch with_prompt(const models::Batch& batch) const;
  /// This rank's rows of with_prompt().
  models::Batch input_of(const models::Batch& batch) const;

  models::Model& model_;
  const dist::MeshPtr mesh_;
  Weights& weights_;
};

}  // namespace trainer::parallel
