#pragma once

#include <string>
#include <vector>

#include "data/sampler/sample_order.h"
#include "data/sampler/shares.h"
#include "data/samples/samples.h"
#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::train {

/// The data of one update: this rank's micro-batches, and facts about the global batch that every rank computes itself.
struct UpdateBatch {
  data::Range positions;  // of the global batch in sample order
  std::vector<models::Batch> micro_batches;
  int64_t target_tokens = 0;  // terms of the global batch's loss: unmasked labels or, of pairs, their number
  int64_t tokens = 0;         // of the global batch, that the model reads
  double efficiency = 1;      // data::packing_efficiency
  std::string digest;         // of the ids of its samples
};

/// The global batches of a run, in an order that does not depend on the number of ranks.
class BatchStream {
 public:
  /// `device`: where the model trains; unless it is the CPU, batches are in pinned memory.
  BatchStream(const data::Samples& samples, const config::Config& config, int64_t global_batch, int rank, int ranks,
              at::Device device = at::kCPU);

  UpdateBatch next(int64_t consumed) const;
  const data::Updates& updates() const { return updates_; }
  bool on_device() const { return on_device_; }

 private:
  const data::Samples& samples_;
  config::TrainingConfig options_;
  data::SampleOrder order_;
  data::Updates updates_;
  int rank_, ranks_;
  bool on_device_;
};

}  // namespace trainer::train
