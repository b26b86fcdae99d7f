#pragma once

#include <map>

#include "engine/dist/bucket_reducer.h"
#include "engine/dist/shared_buckets.h"
#include "engine/parallel/weights.h"

namespace trainer::parallel {

// Note [Shared copies]
// Under DDP, each rank has a copy of the weights and updates it. Ranks that share memory (the CPUs of one machine) hold
// one copy, with the optimizer's state: each updates a part of it for all, from sums of gradients that are complete on
// every rank, so that a run has the bits of one on several machines. The optimizer's step begins when all ranks have come
// to it, and ends when all have updated their parts.

/// Every rank of a stage holds all of it (DDP). Gradients are summed over ranks during the last backward of an update
/// if it is announced (reduce_in_backward), which a pipeline with its several backwards does not do; else after it.
class WholeWeights : public Weights {
 public:
  /// When gradients are summed over ranks: kInBackward, by the exchange, or, with several stages, after it.
  enum class Sums { kNever, kInBackward, kAfterBackward };

  /// Collective. Loads the values from `source`. `by_element`: whether a rank may update a part of a weight.
  WholeWeights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
               const Precision& precision, Sums when, const dist::GradientExchange& exchange, bool by_element,
               const WeightSource& source);

  void end() override { check_files(); }
  void reduce_in_backward(const at::Tensor& loss) override;
  void drop_gradients() override;

 protected:
  void reduce_in_stage() override;

 private:
  /// Whether frozen weights are used in place.
  bool prefers_in_place() const;
  /// Places trained weights in memory that the ranks share, if they can.
  void share_values();
  void load(nn::Parameter& parameter, const WeightSource& source, bool in_place);
  void add_gradients(Sums when, const dist::GradientExchange& exchange);
  void concatenate_gradients();

  struct SharedValue {
    at::Tensor value;
    int64_t first, last;  // what this rank updates
  };

  std::vector<nn::ParameterPtr> trained_;  // of this rank's parameters
  std::map<const nn::Parameter*, SharedValue> shared_;
  std::vector<nn::ParameterPtr> replaced_;        // of these: the next update's gradients replace the last one's
  std::vector<at::Tensor> zeroed_;                // the gradients of the others
  std::unique_ptr<dist::SharedBuckets> buckets_;  // of one stage on several ranks that share memory
  std::unique_ptr<dist::BucketReducer> reducer_;  // of one stage on other ranks
  at::Tensor gradients_;                          // summed after backward: all of them, concatenated
};

}  // namespace trainer::parallel
