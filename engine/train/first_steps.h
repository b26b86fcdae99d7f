// Checks that a run makes in its first updates.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/parallel/parallel_model.h"
#include "engine/train/batch_stream.h"

namespace trainer::train {

/// Watches the first updates of a run for mistakes that would otherwise silently train nothing or the wrong thing.
/// Members marked "Collective" compare ranks: a gradient may be zero in this rank's shard and not in another's.
class FirstSteps {
 public:
  /// `model` has its values, but no update yet. Errors: InternalError when tied names are not one weight.
  explicit FirstSteps(parallel::ParallelModel& model);

  /// Collective. Errors: InputError when all labels are masked; InternalError when the ranks' samples and labels don't
  /// add up to those of the update.
  void check_batch(const UpdateBatch& batch) const;
  /// Records this rank's gradients of an update before the optimizer step.
  void see_gradients();
  /// Collective, after the optimizer step. Returns a warning that names the trained tensors that no gradient reached;
  /// "" if there are none or it is too early to tell. (Gradients may be zero before the first change: LoRA's A has none
  /// while B is zero.) Errors: InternalError when a frozen tensor changed; InputError when no gradient reached any.
  std::string see_update(double learning_rate);
  /// True when all checks are done.
  bool done() const { return done_; }

 private:
  void check_aliases() const;
  std::string without_gradient() const;

  parallel::ParallelModel& model_;
  std::map<std::string, uint64_t> frozen_;  // checksums of this rank's shards
  std::set<std::string> reached_;           // tensors whose shard on this rank had a gradient
  bool changed_ = false;                    // an update had a learning rate above 0
  bool done_ = false;
};

/// Collective. Names of the tensors whose gradient is not finite on any rank; for a message.
std::string not_finite(parallel::ParallelModel& model);

}  // namespace trainer::train
