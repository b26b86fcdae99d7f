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

/// The dtypes of a run: parameters that train are kept in fp32, linear layers compute in `compute`.
struct Precision {
  at::ScalarType compute = at::kFloat;
  std::optional<at::ScalarType> frozen_as = std::nullopt;  // what frozen weights are kept in; none: as they are stored

  /// The dtype a frozen weight is kept in: never wider than what it is computed with.
  at::ScalarType frozen(const nn::Parameter& parameter, at::ScalarType stored) const {
    return parameter.linear && compute != at::kFloat ? compute : frozen_as.value_or(stored);
  }
  /// The dtype layers see a trainable weight in.
  at::ScalarType seen(const nn::Parameter& parameter) const { return parameter.linear ? compute : at::kFloat; }
};

class ParallelModel {
 public:
  ParallelModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision);
  virtual ~ParallelModel() = default;

  /// Collective. Forward and backward of this rank's micro-batches (the same number on every rank; some may be empty).
  /// Leaves in the gradients: d(sum of losses of all ranks / `target_tokens`). Returns the sum of losses of this rank's
  /// samples, as every rank does that works on the same ones.
  /// `pass.training` says whether dropout is drawn.
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

  /// Collective. The L2 norm of all gradients, which are scaled down to `max_norm` where they exceed it (0: never).
  double clip_grad_norm(double max_norm);
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
  /// `batch` with the learnt prompt's tokens in front of every sample.
  models::Batch given_to_model(const models::Batch& batch) const;
  /// `given` for a forward pass that is not learnt from.
  nn::Pass without_gradients(const nn::Pass& given) const;
  /// Around everything that runs the model's forward.
  virtual void begin_forward() {}
  virtual void end_forward() {}
  /// Before and after the backward of one micro-batch; `last` of its update.
  virtual void begin_backward(bool last) {}
  virtual void end_backward(bool last) {}

 private:
  std::unique_ptr<models::Model> model_;
  dist::MeshPtr mesh_;
  Precision precision_;
};

}  // namespace trainer::parallel
