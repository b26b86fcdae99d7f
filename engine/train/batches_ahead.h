#pragma once

#include <future>

#include "engine/train/batch_stream.h"

namespace trainer::train {

/// The global batches of a run. If the model trains on a device, a thread reads and collates the next one while the
/// device works. On the CPU, whose cores all work on the update, nothing is read ahead.
class BatchesAhead {
 public:
  explicit BatchesAhead(const BatchStream& stream) : stream_(stream) {}

  /// Errors: those of reading the samples, also if they were read ahead.
  UpdateBatch next(int64_t consumed);
  const data::Updates& updates() const { return stream_.updates(); }

 private:
  BatchStream stream_;  // one thread at a time uses it: the sample order has a cache
  int64_t from_ = 0;    // what ahead_ begins with
  std::future<UpdateBatch> ahead_;
};

}  // namespace trainer::train
