// The model of one rank in a dry run.
#pragma once

#include <memory>
#include <optional>

#include "engine/dist/dry_comm.h"
#include "engine/train/build.h"
#include "engine/train/longest_batches.h"
#include "models/nn/device/attention_choice.h"
#include "models/nn/reference/reference.h"

namespace trainer::train {

/// A rank's parallelized model on the meta device, as it runs on the device that `transport` is for (Note [Dry run] in
/// memory_plan.h). Until the end of its lifetime, this thread's dry runs stand for that device.
class DryModel {
 public:
  /// The first rank of a pipeline's `stage`.
  DryModel(const config::Plan& plan, Blueprint blueprint, dist::Transport transport, int64_t stage);

  parallel::ParallelModel& operator*() const { return *model_; }
  parallel::ParallelModel* operator->() const { return model_.get(); }
  dist::Comm& comm() const { return *comm_; }

 private:
  std::optional<nn::DryDevice> device_;
  std::optional<nn::OwnAttentionMasks> own_masks_;
  Blueprint blueprint_;
  std::unique_ptr<dist::Comm> comm_;
  std::unique_ptr<parallel::ParallelModel> model_;
};

/// A micro-batch of these lengths, without values. `features`: of an image's pixels; 0 for text.
models::Batch dry_batch(const BatchLengths& lengths, data::LabelKind kind, int64_t features);

/// `count` token ids without values.
at::Tensor dry_ids(int64_t count);

}  // namespace trainer::train
