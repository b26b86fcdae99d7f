// A parallelized model. The trainer uses only this interface, for every strategy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/dist/mesh.h"
#include "engine/parallel/logical_tensor.h"
#include "engine/parallel/weight_source.h"
#include "models/model.h"

namespace trainer::parallel {

/// The dtypes of a run: trained parameters are stored in fp32, linear layers compute in `compute`. (In fp16, those
/// whose outputs would overflow compute in fp32.)
struct Precision {
  at::ScalarType compute = at::kFloat;
  std::optional<at::ScalarType> frozen_as = std::nullopt;  // storage dtype of frozen weights; none: the file's dtype
  at::ScalarType reduce = at::kFloat;                      // dtype of gradients in reductions

  /// The storage dtype of a frozen weight: never wider than its compute dtype.
  at::ScalarType frozen(const nn::Parameter& parameter, at::ScalarType stored) const {
    return compute_dtype(parameter) != at::kFloat ? compute_dtype(parameter) : frozen_as.value_or(stored);
  }
  /// The compute dtype of a trainable weight.
  at::ScalarType compute_dtype(const nn::Parameter& parameter) const {
    return parameter.linear ? parameter.computed_in(compute) : at::kFloat;
  }
};

class ParallelModel {
 public:
  ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision);
  virtual ~ParallelModel() = default;

  /// Collective. Forward and backward of this rank's micro-batches (the same number on every rank; some may be empty).
  /// Leaves in the gradients: d(loss_scale() * sum of losses of all ranks / `target_tokens`). Returns the sum of losses
  /// of this rank's samples, the same on all ranks that work on these samples. `pass.training` enables dropout.
  virtual double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass);

  /// Collective. The sum of losses of this rank's samples, without gradients.
  virtual double evaluate(const models::Batch& batch, const nn::Pass& pass);

  /// Collective. Calls `work` with `given` for forward passes without gradients, which only `work` may run.
  void run_forward(const nn::Pass& given, const std::function<void(nn::Pass&)>& work);
  /// In run_forward; collective over the ranks of a replica. The logits of every label, and those of the next token
  /// after `tokens` [samples] while decoding (see models::Model). Undefined on pipeline stages that don't run the head.
  virtual at::Tensor logits(const models::Batch& batch, const nn::Pass& pass);
  virtual at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass);
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
  void zero_grad();

  /// Collective, once before the first update: loads the values from `source`.
  void load(const WeightSource& source);
  /// Every parameter, in model order. The list is made by load(): updates change values and gradients in place.
  const std::vector<LogicalTensor>& logical_tensors() const { return tensors_; }

  models::Model& model() { return *model_; }
  const dist::Mesh& mesh() const { return *mesh_; }
  /// All ranks of the run.
  dist::Comm& comm() { return mesh_->world(); }
  const Precision& precision() const { return precision_; }

 protected:
  virtual void load_values(const WeightSource& source) = 0;
  /// The list that logical_tensors() returns.
  virtual std::vector<LogicalTensor> list_tensors() = 0;
  /// The scalar that the backward of a micro-batch starts from, computed from its sum of losses.
  virtual at::Tensor to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const;
  /// `batch` with the learned prompt's tokens in front of every sample.
  models::Batch given_to_model(const models::Batch& batch) const;
  static double sum_of_squares(const at::Tensor& flat);
  /// Removes the loss scale from the gradients, whose norm including the scale is `scaled_norm`, and clips them to
  /// `max_norm`. Returns the norm without the scale.
  double unscale_and_clip(double scaled_norm, double max_norm);
  /// `given` for a forward pass without gradients.
  nn::Pass without_gradients(const nn::Pass& given) const;
  /// Called around every run of the model's forward.
  virtual void begin_forward() {}
  virtual void end_forward() {}
  /// The value of a scalar; 0 in a dry run.
  static double value_of(const at::Tensor& scalar);
  /// Called before and after the backward of one micro-batch with loss `loss`; `last`: the last one of its update.
  virtual void begin_backward(const at::Tensor& loss, bool last) {}
  virtual void end_backward(bool last) {}

 private:
  std::unique_ptr<models::Model> model_;
  dist::MeshPtr mesh_;
  Precision precision_;
  double loss_scale_ = 1;
  std::vector<LogicalTensor> tensors_;
};

}  // namespace trainer::parallel
