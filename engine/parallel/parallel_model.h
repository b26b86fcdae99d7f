// A model spread over ranks. The trainer sees only this; which strategy it is makes no difference to it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/dist/mesh.h"
#include "engine/parallel/logical_tensor.h"
#include "engine/parallel/sampling.h"
#include "engine/parallel/weight_source.h"
#include "models/model.h"

namespace trainer::parallel {

/// The dtypes of a run: parameters that train are kept in fp32, linear layers compute in `compute`. (In fp16 those
/// whose results would overflow compute in fp32.)
struct Precision {
  at::ScalarType compute = at::kFloat;
  std::optional<at::ScalarType> frozen_as = std::nullopt;  // what frozen weights are kept in; none: as they are stored
  at::ScalarType reduce = at::kFloat;                      // in which gradients of shards are added up

  /// The dtype a frozen weight is kept in: never wider than what it is computed with.
  at::ScalarType frozen(const nn::Parameter& parameter, at::ScalarType stored) const {
    return seen(parameter) != at::kFloat ? seen(parameter) : frozen_as.value_or(stored);
  }
  /// The dtype layers see a trainable weight in.
  at::ScalarType seen(const nn::Parameter& parameter) const {
    return parameter.linear ? parameter.computed_in(compute) : at::kFloat;
  }
};

class ParallelModel {
 public:
  ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision);
  virtual ~ParallelModel() = default;

  /// Collective. Forward and backward of this rank's micro-batches (the same number on every rank; some may be empty).
  /// Leaves in the gradients: d(loss_scale() * sum of losses of all ranks / `target_tokens`). Returns the sum of losses
  /// of this rank's samples, as every rank does that works on the same ones. `pass.training` says whether dropout is
  /// drawn.
  virtual double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass);

  /// Collective. This rank's sum of losses, without gradients.
  virtual double evaluate(const models::Batch& batch, const nn::Pass& pass);

  /// Collective. The class that a classifier gives each sample of this rank, and its sum of losses.
  struct Classes {
    double loss = 0;
    std::vector<int64_t> classes;
  };
  virtual Classes classify(const models::Batch& batch, const nn::Pass& pass);

  /// Collective. The new tokens of each sample, up to and without the end token, chosen as `sampling` says.
  /// All ranks decode as long as any does, so that they make the same number of forward calls.
  virtual std::vector<std::vector<int64_t>> generate(const models::Batch& batch, int64_t max_new_tokens,
                                                     const nn::Pass& pass, const Sampling& sampling = {});

  /// Collective. Takes the loss scale out of the gradients, and returns their L2 norm, to `max_norm` of which they are
  /// scaled down where they exceed it (0: never). Every rank gets a norm that is not finite when a gradient of any
  /// rank is not; then the gradients are of no use.
  virtual double clip_grad_norm(double max_norm);
  /// Collective, after the optimiser's update. `step`: updates of the run so far.
  virtual void after_update(int64_t step) {}
  /// Collective. Makes the weights the same on all ranks that hold copies of them, and `state` of theirs (flat, fp32),
  /// where ranks are trained alone for a while.
  virtual void bring_together(const std::vector<at::Tensor>& state) {}

  /// What losses are multiplied by before the backward, so that fp16 doesn't lose small gradients. A power of two.
  double loss_scale() const { return loss_scale_; }
  void set_loss_scale(double scale) { loss_scale_ = scale; }
  void zero_grad();

  /// Every parameter, in the order of the model; gradients as of the last update.
  virtual std::vector<LogicalTensor> logical_tensors() = 0;
  /// Collective, once before the first update: values as of `source`.
  virtual void load(const WeightSource& source) = 0;

  models::Model& model() { return *model_; }
  const dist::Mesh& mesh() const { return *mesh_; }
  /// All ranks of the run.
  dist::Comm& comm() { return mesh_->world(); }
  const Precision& precision() const { return precision_; }

 protected:
  /// What the backward of a micro-batch starts from, of its sum of losses.
  virtual at::Tensor to_backward(const at::Tensor& loss_sum, int64_t target_tokens) const;
  /// `batch` with the learnt prompt's tokens in front of every sample.
  models::Batch given_to_model(const models::Batch& batch) const;
  static double sum_of_squares(const at::Tensor& flat);
  /// Takes the loss scale out of the gradients, whose norm with it is `scaled_norm`, and scales them down to
  /// `max_norm`. Returns the norm without the scale.
  double unscale_and_clip(double scaled_norm, double max_norm);
  /// `given` for a forward pass that is not learnt from.
  nn::Pass without_gradients(const nn::Pass& given) const;
  /// Around everything that runs the model's forward.
  virtual void begin_forward() {}
  virtual void end_forward() {}
  /// Collective over the ranks of a copy. The token [samples] that follows `tokens` [samples] in each sample, chosen as
  /// the `step`-th of those that are generated.
  virtual at::Tensor next_of(const at::Tensor& tokens, const nn::Layout& samples, const Sampling& sampling,
                             int64_t step, nn::Pass& pass);
  /// The value of a scalar; 0 in a dry run.
  static double value_of(const at::Tensor& scalar);
  /// The numbers in `classes` [samples]; none in a dry run.
  static std::vector<int64_t> classes_of(const at::Tensor& classes);
  /// Before and after the backward of one micro-batch, from `loss`; `last` of its update.
  virtual void begin_backward(const at::Tensor& loss, bool last) {}
  virtual void end_backward(bool last) {}

 private:
  std::unique_ptr<models::Model> model_;
  dist::MeshPtr mesh_;
  Precision precision_;
  double loss_scale_ = 1;
};

}  // namespace trainer::parallel
