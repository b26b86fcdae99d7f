#pragma once

#include <deque>

#include "engine/parallel/schedule.h"
#include "engine/parallel/stage_runner.h"
#include "engine/parallel/sums.h"

namespace trainer::parallel {

/// A decoder whose blocks are split over the pipeline ranks of the mesh: the forwards and backwards of each rank's
/// stages in the order of pipeline_schedule().
class PipelinedSchedule : public Schedule {
 public:
  /// `weights`: those of the stages of `runner`.
  PipelinedSchedule(models::DecoderModel& model, dist::MeshPtr mesh, Weights& weights,
                    std::unique_ptr<StageRunner> runner);

  ScalarSum update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass, const Root& root) override;
  double sum_of_parts(double losses) override { return mesh_->pipeline().sum(losses); }
  double loss_sum(const models::Batch& batch, const nn::Pass& pass) override;
  at::Tensor logits(const models::Batch& batch, const nn::Pass& pass) override;
  at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass) override;

 private:
  /// A forward that waits for its backward.
  struct InFlight {
    StageRunner::Crossing crossing;
    at::Tensor output;  // what the backward starts from
    ForwardPassPtr pass;
  };
  struct SentGradient {
    at::Tensor gradient;  // kept until sent
    std::unique_ptr<dist::Pending> sent;
  };

  void forward(int64_t chunk, const models::Batch& batch, const nn::Pass& pass, const Root& root, ScalarSum& total);
  void backward(int64_t chunk);
  void send_gradient(const at::Tensor& states);

  models::DecoderModel& decoder_;
  std::unique_ptr<StageRunner> runner_;
  std::vector<std::deque<InFlight>> in_flight_;  // of each of this rank's stages
  std::deque<SentGradient> gradients_sent_;
};

}  // namespace trainer::parallel
