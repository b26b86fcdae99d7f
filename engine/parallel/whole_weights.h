#pragma once

#include "engine/dist/bucket_reducer.h"
#include "engine/dist/shared_buckets.h"
#include "engine/parallel/shared_values.h"
#include "engine/parallel/weights.h"

namespace trainer::parallel {

/// Every rank of a stage holds all of it (DDP), or shares it (Note [Shared copies]). Gradients are summed over ranks
/// during the last backward of an update if it is announced (reduce_in_backward), which a pipeline with its several
/// backwards does not do, and if ranks share no memory; else after it.
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
  void load(nn::Parameter& parameter, const WeightSource& source, bool in_place);
  void add_gradients(Sums when, const dist::GradientExchange& exchange);
  void concatenate_gradients();

  std::vector<nn::ParameterPtr> trained_;         // of this rank's parameters
  SharedValues shared_;                           // of these: all, or none
  std::vector<nn::ParameterPtr> replaced_;        // of these: the next update's gradients replace the last one's
  std::vector<at::Tensor> zeroed_;                // the gradients of the others
  std::unique_ptr<dist::SharedBuckets> buckets_;  // of one stage on several ranks that share memory
  std::unique_ptr<dist::BucketReducer> reducer_;  // of one stage on other ranks
  at::Tensor gradients_;                          // summed after backward: all of them, concatenated
};

}  // namespace trainer::parallel
