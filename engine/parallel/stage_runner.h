#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/dist/mesh.h"
#include "engine/parallel/pipeline_stages.h"

namespace trainer::parallel {

// Note [Stages]
// Every rank runs the model's own code, except for the stack of blocks: a stage receives the states from the previous
// rank, runs its blocks, and sends the result to the next rank. So losses, decoding and classification use the same
// code as on one rank; all ranks but the last stop after the stack.

/// A pipeline rank's stages, which take the place of the model's stack, and the messages to its neighbors.
class StageRunner {
 public:
  struct Stage {
    int64_t number;  // index among all stages
    models::Chunk blocks;
    bool gradient_before = false, gradient_after = false;  // whether its input and output states require gradients
  };
  /// The input and output of a stage in one forward pass.
  struct Crossing {
    at::Tensor in;                        // the received states [T, D]; undefined for the first stage
    at::Tensor out;                       // the sent states, or the output of the stack
    std::unique_ptr<dist::Pending> sent;  // keep `out` until it is received
  };

  /// Collective. `chunks`: all stages, as split_into_chunks returns them for `shape`.
  StageRunner(models::DecoderModel& model, dist::MeshPtr mesh, const PipelineShape& shape,
              const std::vector<models::Chunk>& chunks);

  const PipelineShape& shape() const { return shape_; }
  /// This rank's stage in its chunk number `chunk`.
  const Stage& stage(int64_t chunk) const { return stages_[static_cast<size_t>(chunk)]; }
  bool last(const Stage& stage) const { return stage.number + 1 == stages_of_all_; }
  /// Whether this rank has the last stage, whose output the head gets.
  bool has_last() const { return last(stages_.back()); }
  /// The path of the stage's first block, for reports.
  const std::string& place_of(const Stage& stage) const;

  /// Calls `work`, which runs the model's stack once, with this stage only.
  Crossing run(const Stage& stage, const std::function<void()>& work);
  /// Returns when the states have been received that the stack sent outside of run().
  void wait_until_received();

  /// The gradient of the output states [rows, D], from the next stage.
  at::Tensor receive_gradient(int64_t rows);
  /// Sends the gradient of the input states to the previous stage; null if there is nothing to send.
  std::unique_ptr<dist::Pending> send_gradient(const at::Tensor& gradient);
  /// Forwards of the previous rank that may wait for their backward.
  int64_t most_in_flight_before() const;

 private:
  /// A communicator of two neighboring ranks for each kind of message. Each carries messages in one direction only:
  /// NCCL runs all messages of a communicator between two ranks one after the other, and a send ends when it is
  /// received. So two ranks that both send before they receive would wait for each other forever.
  struct Neighbor {
    /// Collective over both ranks. States go from `from` to `to`, gradients back.
    Neighbor(dist::Comm& pipeline, int from, int to);
    std::unique_ptr<dist::Comm> states, gradients;
  };

  nn::Rows run_stages(const nn::Rows& ids, const nn::Pass& pass);
  Crossing run_stage(const Stage& stage, const nn::Rows& ids, const nn::Pass& pass);
  at::Tensor received(int64_t rows, dist::Comm& along);
  static std::unique_ptr<dist::Pending> send(const at::Tensor& states, dist::Comm& along);

  models::DecoderModel& model_;
  const dist::MeshPtr mesh_;
  const PipelineShape shape_;
  const int64_t stages_of_all_;
  std::vector<Stage> stages_;        // this rank's, in forward order
  const Stage* running_ = nullptr;   // the stage to run; null: all of this rank's
  Crossing crossing_;                // of the stage that ran last
  std::vector<Crossing> forwarded_;  // of all stages but the last: kept until sent
  std::unique_ptr<Neighbor> to_next_, to_previous_;  // null at the ends of the pipeline
};

}  // namespace trainer::parallel
