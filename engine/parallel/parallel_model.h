// A parallelized model. The trainer uses only this interface, for every strategy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/parallel/schedule.h"

namespace trainer::parallel {

// Note [One read]
// Each read of a device makes the host wait for all operators before it, and then the device for the host. So update()
// reads what the end of an update needs in one copy: the sum of losses, and the squares of the gradients, which
// clip_grad_norm() takes. Nothing may change the gradients in between. Between micro-batches nothing is read. Values on
// the CPU are read where they are needed.

/// A model on this rank: its weights, and the schedule by which updates run them. parallelize() makes one.
class ParallelModel {
 public:
  ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                std::unique_ptr<Weights> weights, std::unique_ptr<Schedule> schedule);
  virtual ~ParallelModel() = default;

  /// Collective. Forward and backward of this rank's micro-batches (the same number on every rank; some may be empty).
  /// Leaves in the gradients: d(loss_scale() * sum of losses of all ranks / `target_tokens`). Returns the sum of losses
  /// of this rank's samples, the same on all ranks that work on these samples. `pass.training` enables dropout.
  double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass);

  /// Collective. The sum of losses of this rank's samples, without gradients.
  double evaluate(const models::Batch& batch, const nn::Pass& pass);

  /// Collective. Calls `work` with `given` for forward passes without gradients, which only `work` may run.
  void run_forward(const nn::Pass& given, const std::function<void(nn::Pass&)>& work);
  /// In run_forward; collective over the ranks of a replica. The logits of every label, and those of the next token
  /// after `tokens` [samples] while decoding (see models::Model). Undefined on pipeline stages that don't run the head.
  at::Tensor logits(const models::Batch& batch, const nn::Pass& pass) { return schedule_->logits(batch, pass); }
  at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass) { return schedule_->decode(tokens, pass); }
  /// Likewise of each text of `batch`, [texts] fp64 where the model is.
  at::Tensor log_probs(const models::Batch& batch, const nn::Pass& pass) { return schedule_->log_probs(batch, pass); }
  /// Collective over the pipeline stages. Copies `result` of the last stage, which runs the head, to all stages.
  void broadcast_from_last_stage(const at::Tensor& result);

  /// Collective. Removes the loss scale from the gradients, clips them to an L2 norm of `max_norm` (0: no clipping),
  /// and returns their norm before clipping. If a gradient on any rank is not finite, every rank gets a non-finite
  /// norm, and the gradients must not be used.
  virtual double clip_grad_norm(double max_norm);
  /// Collective, after the optimizer's update. `step`: updates of the run so far.
  virtual void after_update(int64_t step) {}
  /// Collective. Between averagings, under local SGD: averages the weights over all replicas, and their `state` (flat,
  /// fp32).
  virtual void average_replicas(const std::vector<at::Tensor>& state) {}

  /// The factor of the loss in backward, which keeps small gradients representable in fp16. A power of two.
  double loss_scale() const { return loss_scale_; }
  void set_loss_scale(double scale) { loss_scale_ = scale; }
  /// The next update() starts from gradients of zero. Until it ends, they have no defined values.
  void zero_grad();

  /// Every parameter, in model order. The list is made when the weights are loaded: updates change values and gradients
  /// in place.
  const std::vector<LogicalTensor>& logical_tensors() const { return weights_->logical_tensors(); }
  /// Bytes of gradients copied to the first device after the backwards of every update (DATA_PARALLEL).
  int64_t copied_gradient_bytes() const { return schedule_->copied_gradient_bytes(); }

  models::Model& model() { return *model_; }
  const dist::Mesh& mesh() const { return *mesh_; }
  /// All ranks of the run.
  dist::Comm& comm() { return mesh_->world(); }
  const Precision& precision() const { return precision_; }

 protected:
  /// The scalar that the backward of a micro-batch starts from, computed from its sum of losses.
  virtual at::Tensor to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const;
  /// Removes the loss scale from the gradients, whose norm including the scale is `scaled_norm`, and clips them to
  /// `max_norm`. Returns the norm without the scale.
  double unscale_and_clip(double scaled_norm, double max_norm);
  /// The sums of squares that the norm of the gradients follows from.
  virtual std::vector<ScalarSum> gradient_squares() const;
  /// Their values, which update() has read if they are on a device.
  std::vector<double> take_squares();
  /// Those that exist, or what this rank updates of them, in model order.
  std::vector<at::Tensor> gradients() const;

 private:
  std::unique_ptr<models::Model> model_;
  dist::MeshPtr mesh_;
  Precision precision_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Schedule> schedule_;
  double loss_scale_ = 1;
  std::optional<std::vector<double>> squares_;  // of the last update, if it read them; until they are taken
};

}  // namespace trainer::parallel
