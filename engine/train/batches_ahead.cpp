#include "engine/train/batches_ahead.h"

namespace trainer::train {

UpdateBatch BatchesAhead::next(int64_t consumed) {
  const bool is_ahead = ahead_.valid() && from_ == consumed;  // not after a rollback
  if (ahead_.valid() && !is_ahead) ahead_.wait();
  UpdateBatch update = is_ahead ? ahead_.get() : stream_.next(consumed);
  if (!stream_.on_device()) return update;
  from_ = update.positions.end;
  ahead_ = std::async(std::launch::async, [this] { return stream_.next(from_); });
  return update;
}

}  // namespace trainer::train
