#pragma once

#include <deque>
#include <optional>

#include "engine/parallel/parallel_model.h"
#include "engine/parallel/pipeline_stages.h"
#include "engine/parallel/stage_weights.h"

namespace trainer::parallel {

/// A decoder whose blocks are spread over the ranks of the mesh's pipeline: each holds the values of its own stretches
/// only, and sends states to the next rank and their gradients to the one before. Gradients are summed over the ranks
/// that see different samples, which may share the stages' values among them.
class PipelinedModel : public ParallelModel {
 public:
  /// Collective. `sharding`: how values are spread over the mesh's shards; none: each rank holds its stages whole.
  /// Errors: ConfigError when the model cannot be cut so.
  PipelinedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                 const PipelineOptions& options, const std::optional<config::FsdpConfig>& sharding = std::nullopt);

  double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass) override;
  double evaluate(const models::Batch& batch, const nn::Pass& pass) override;
  Classes classify(const models::Batch& batch, const nn::Pass& pass) override;

  /// Lists the other ranks' parameters too, with an empty piece.
  std::vector<LogicalTensor> logical_tensors() override { return weights_->logical_tensors(); }
  void load(const WeightSource& source) override { weights_->load(source); }

 protected:
  void begin_forward() override;
  void end_forward() override;
  at::Tensor next_of(const at::Tensor& tokens, const nn::Layout& samples, const Sampling& sampling, int64_t step,
                     nn::Pass& pass) override;

 private:
  /// What a stretch was given and made of it in one forward pass.
  struct Crossing {
    at::Tensor in;   // the states [T, D] that were received; undefined for the first stretch
    at::Tensor out;  // the states that were sent, or the loss
    std::unique_ptr<dist::Pending> sent;
    ShardedUnits::ForwardPassPtr pass;
  };
  struct Stage {
    int64_t number;  // of all stretches
    models::Stretch blocks;
    bool gradient_before = false, gradient_after = false;  // whether the states before and after it need a gradient
    std::deque<Crossing> in_flight;                        // forwards whose backward is still to come
  };
  models::DecoderModel& decoder() { return static_cast<models::DecoderModel&>(model()); }
  bool first(const Stage& stage) const { return stage.number == 0; }
  bool last(const Stage& stage) const { return stage.number + 1 == stretches_; }
  bool at_end() const { return last(stages_.back()); }

  at::Tensor run_stages(const at::Tensor& ids, const nn::Pass& pass);
  Crossing run_stage(const Stage& stage, const at::Tensor& ids, const nn::Pass& pass);
  at::Tensor received(int64_t rows, int from, dist::Comm& along);
  std::unique_ptr<dist::Pending> send(const at::Tensor& states, int to, dist::Comm& along);
  int neighbour(int64_t step) const;
  const std::string& place_of(const Stage& stage);

  double forward(Stage& stage, const models::Batch& batch, int64_t target_tokens, const nn::Pass& pass);
  void backward(Stage& stage);
  void after_forward();

  PipelineShape shape_;
  int64_t stretches_ = 0;
  std::deque<Stage> stages_;             // this rank's, in forward order
  Stage* running_ = nullptr;             // the only one that is run now; null: all of this rank's
  Crossing crossing_;                    // of the last stage that was run
  std::vector<Crossing> forwarded_;      // without gradients: kept until they are sent
  std::deque<Crossing> gradients_sent_;  // kept until they are sent
  std::unique_ptr<StageWeights> weights_;
  std::unique_ptr<dist::Comm> own_backwards_;
  dist::Comm* backwards_ = nullptr;  // the ranks of the pipeline, for gradients
};

}  // namespace trainer::parallel
