#pragma once

#include <deque>
#include <optional>

#include "engine/parallel/parallel_model.h"
#include "engine/parallel/pipeline_stages.h"
#include "engine/parallel/stage_weights.h"

namespace trainer::parallel {

/// A decoder whose blocks are split over the pipeline ranks of the mesh: each rank holds only the values of its own
/// stages, sends states to the next rank and their gradients to the previous one. Gradients are summed over the data
/// ranks, which may shard the stages' values.
class PipelinedModel : public ParallelModel {
 public:
  /// Collective. `sharding`: how values are sharded over the mesh's shard axis; none: each rank holds its stages whole.
  /// Errors: ConfigError if the model cannot be split into these stages.
  PipelinedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                 const PipelineOptions& options, const std::optional<config::FsdpConfig>& sharding = std::nullopt);

  double update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens, const nn::Pass& pass) override;
  double evaluate(const models::Batch& batch, const nn::Pass& pass) override;
  at::Tensor logits(const models::Batch& batch, const nn::Pass& pass) override;
  at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass) override;

 protected:
  void load_values(const WeightSource& source) override { weights_->load(source); }
  /// Includes the other ranks' parameters, with an empty shard.
  std::vector<LogicalTensor> list_tensors() override { return weights_->list_tensors(); }
  void begin_forward() override;
  void end_forward() override;

 private:
  /// The input and output of a stage in one forward pass.
  struct Crossing {
    at::Tensor in;   // the received states [T, D]; undefined for the first stage
    at::Tensor out;  // the sent states, or the loss
    std::unique_ptr<dist::Pending> sent;
    ShardedUnits::ForwardPassPtr pass;
  };
  struct Stage {
    int64_t number;  // index among all stages
    models::Chunk blocks;
    bool gradient_before = false, gradient_after = false;  // whether its input and output states require gradients
    std::deque<Crossing> in_flight;                        // forwards that wait for their backward
  };
  models::DecoderModel& decoder() { return static_cast<models::DecoderModel&>(model()); }
  bool first(const Stage& stage) const { return stage.number == 0; }
  bool last(const Stage& stage) const { return stage.number + 1 == chunks_; }
  bool at_end() const { return last(stages_.back()); }

  at::Tensor run_stages(const at::Tensor& ids, const nn::Pass& pass);
  Crossing run_stage(const Stage& stage, const at::Tensor& ids, const nn::Pass& pass);
  at::Tensor received(int64_t rows, int from, dist::Comm& along);
  std::unique_ptr<dist::Pending> send(const at::Tensor& states, int to, dist::Comm& along);
  int neighbor(int64_t step) const;
  const std::string& place_of(const Stage& stage);

  double forward(Stage& stage, const models::Batch& batch, int64_t target_tokens, const nn::Pass& pass);
  void backward(Stage& stage);
  void after_forward();

  PipelineShape shape_;
  int64_t chunks_ = 0;
  std::deque<Stage> stages_;             // this rank's stages, in forward order
  Stage* running_ = nullptr;             // the stage to run; null: all of this rank's
  Crossing crossing_;                    // of the stage that ran last
  std::vector<Crossing> forwarded_;      // without gradients: kept until sent
  std::deque<Crossing> gradients_sent_;  // kept until sent
  std::unique_ptr<StageWeights> weights_;
  std::unique_ptr<dist::Comm> own_backwards_;
  dist::Comm* backwards_ = nullptr;  // the pipeline group, for gradients
};

}  // namespace trainer::parallel
