// What a run makes sure of in its first updates.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/parallel/parallel_model.h"
#include "engine/train/batch_stream.h"

namespace trainer::train {

/// Watches the first updates of a run for what would otherwise train nothing, or the wrong thing, without a word. All
/// members that say "Collective" compare ranks: a gradient may be zero in this rank's shard and not in another's.
class FirstSteps {
 public:
  /// Of a model with its values, before the first update. Errors: InternalError when tied names are not one weight.
  explicit FirstSteps(parallel::ParallelModel& model);

  /// Collective. Errors: InputError when no label counts; InternalError when the ranks together don't take the samples
  /// and labels that the update should consist of.
  void check_batch(const UpdateBatch& batch) const;
  /// This rank's gradients of an update that will be made.
  void see_gradients();
  /// Collective, after that update was made. Returns a warning that names the trained tensors which no gradient ever
  /// reached, when it is time to say so, or "". (Gradients may be zero before the first change: LoRA's A has none while
  /// B is zero.) Errors: InternalError when a frozen tensor changed; InputError when no gradient reached any of them.
  std::string see_update(double learning_rate);
  /// True when all has been seen.
  bool done() const { return done_; }

 private:
  void check_aliases() const;
  std::string without_gradient() const;

  parallel::ParallelModel& model_;
  std::map<std::string, uint64_t> frozen_;  // checksums of this rank's pieces
  std::set<std::string> reached_;           // tensors whose piece here had a gradient
  bool changed_ = false;                    // an update with a learning rate was made
  bool done_ = false;
};

/// Collective. Names of the tensors with a gradient that is not finite, of any rank; for a message.
std::string not_finite(parallel::ParallelModel& model);

}  // namespace trainer::train
