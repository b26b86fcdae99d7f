#pragma once

#include <deque>
#include <map>
#include <memory>

#include "engine/dist/graph.h"
#include "engine/dist/side_stream.h"
#include "engine/parallel/graph_inputs.h"
#include "engine/parallel/schedule.h"
#include "models/decoder_model.h"

namespace trainer::parallel {

// Note [Graphs of micro-batches]
// The first micro-batch of a shape runs as usual. The second one runs from the tensors that the graph will read, on the
// stream that is recorded, so that libtorch has all its memory and its handles. The third one is recorded; it, and all
// later ones, are replayed. What a recording refuses (a wait of the host, numbers that a layer sends in every pass)
// ends graphs for the run: the micro-batch runs as usual, because a recording has no effect. Everything that differs
// between micro-batches of one shape lies in GraphInputs and in the gradient of the loss. Gradients are added to
// tensors that exist before, and the losses to a tensor of this class, so nothing that a graph allocates is used
// outside of it. Gradients are summed over ranks after the last backward: c10d's reducer would launch its sums from
// hooks on the host.

/// One stage, whole weights: the forward and backward of micro-batches of a repeated shape are replayed.
class GraphedSchedule : public Schedule {
 public:
  /// `model` and `weights` outlive this.
  GraphedSchedule(models::DecoderModel& model, dist::MeshPtr mesh, Weights& weights,
                  std::unique_ptr<dist::GraphRecorder> recorder);

  /// `root` must be the division by the target tokens that `pass.loss_grad` stands for.
  ScalarSum update(const std::vector<models::Batch>& micro_batches, const nn::Pass& pass, const Root& root) override;

 private:
  struct Repeated {
    GraphInputs inputs;
    std::unique_ptr<dist::Graph> graph;  // null before the recording
    bool rehearsed = false;
  };

  void run(const nn::RowsList& inputs, const nn::Pass& pass);
  /// Null: the shape is new, or there are too many.
  Repeated* repeated(const nn::RowsList& inputs, const nn::Pass& pass);
  /// They return false, without an effect, and end graphs for the run if the pass can't be recorded.
  bool rehearse(Repeated& shape, const nn::Pass& pass);
  bool record(Repeated& shape, const nn::Pass& pass);
  void give_up(const std::string& why);
  void run_operators(const nn::RowsList& inputs, const nn::Pass& pass);
  void count(bool replayed);

  models::DecoderModel& decoder_;
  std::unique_ptr<dist::GraphRecorder> recorder_;  // null: it refused
  dist::SideStream stream_;                        // which it records
  at::Tensor losses_, loss_grad_;                  // scalars on the device: fp64, fp32
  std::map<BatchShape, Repeated> repeated_;
  std::deque<BatchShape> seen_once_;
  int64_t micro_batches_ = 0, replayed_ = 0;
};

}  // namespace trainer::parallel
