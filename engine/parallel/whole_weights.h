#pragma once

#include "engine/dist/bucket_reducer.h"
#include "engine/parallel/weights.h"

namespace trainer::parallel {

// Note [Weights in place]
// Frozen weights that a file of this machine holds as a rank needs them are used there, in the system's page cache: all
// ranks and programs of the machine share one copy, a start copies nothing, and a model may be larger than the free
// memory, since the system can drop pages and read them again. The products of training take as long as with a copy in
// pages of 2 MiB (Note [Huge pages]). Generation, which reads every weight for each token, takes up to 1.25 times as
// long, so a model that isn't trained is copied if there is memory for it. If another program writes to the file,
// weights change: the end of each forward or backward fails then, before its result is used.

/// Every rank of a stage holds all of it (DDP). Gradients are summed over ranks during the last backward of an update
/// if it is announced (reduce_in_backward), which a pipeline with its several backwards does not do; else after it.
class WholeWeights : public Weights {
 public:
  /// When gradients are summed over ranks: kInBackward, by the exchange, or, with several stages, after it.
  enum class Sums { kNever, kInBackward, kAfterBackward };

  /// Collective. Loads the values from `source`.
  WholeWeights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
               const Precision& precision, Sums when, const dist::GradientExchange& exchange,
               const WeightSource& source);

  /// Errors: InputError when a file whose weights are used in place was changed.
  void end() override;
  void reduce_in_backward(const at::Tensor& loss) override;

 protected:
  void reduce_in_stage() override;

 private:
  /// Whether frozen weights are used in place.
  bool prefers_in_place() const;
  void load(nn::Parameter& parameter, const WeightSource& source, bool in_place);
  void add_gradients(Sums when, const dist::GradientExchange& exchange);
  void concatenate_gradients();
  LogicalTensor tensor_of(const Parameter& parameter) const;

  std::set<std::shared_ptr<const RegularFile>> files_;  // whose weights are used in place
  std::vector<nn::ParameterPtr> trained_;               // of this rank's parameters
  std::unique_ptr<dist::BucketReducer> reducer_;        // of one stage on several ranks
  at::Tensor gradients_;                                // summed after backward: all of them, concatenated
};

}  // namespace trainer::parallel
