#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/order.h"
#include "data/shares.h"
#include "models/model.h"

namespace trainer::train {

/// What one update learns from: this rank's micro-batches, and facts about the whole that every rank knows by itself.
struct UpdateBatch {
  data::Range positions;  // of the global batch in the run's order
  std::vector<models::Batch> micro_batches;
  int64_t target_tokens = 0, tokens = 0;  // of the global batch; `tokens` counts source and target
  std::string digest;                     // of the ids of its samples
};

/// The global batches of a run, in an order that does not depend on the ranks.
class BatchStream {
 public:
  BatchStream(const data::Dataset& samples, int64_t seed, bool shuffle, int64_t global_batch, int64_t per_device,
              int rank, int ranks);

  UpdateBatch next(int64_t consumed) const;
  const data::Updates& updates() const { return updates_; }

 private:
  const data::Dataset& samples_;
  data::Order order_;
  data::Updates updates_;
  int64_t per_device_;
  int rank_, ranks_;
};

}  // namespace trainer::train
