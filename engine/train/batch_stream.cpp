#include "engine/train/batch_stream.h"

#include "engine/batching/collate.h"

namespace trainer::train {

BatchStream::BatchStream(const data::Dataset& samples, int64_t seed, bool shuffle, int64_t global_batch,
                         int64_t per_device, int rank, int ranks)
    : samples_(samples),
      order_(seed, samples.size(), shuffle),
      updates_(samples.size(), global_batch),
      per_device_(per_device),
      rank_(rank),
      ranks_(ranks) {}

UpdateBatch BatchStream::next(int64_t consumed) const {
  const auto index_of = [this](int64_t position) { return order_.sample(position); };
  UpdateBatch update;
  update.positions = updates_.next(consumed);
  for (const data::Range& range : data::micro_batches(update.positions, rank_, ranks_, per_device_))
    update.micro_batches.push_back(batching::collate(samples_, range, index_of));
  const auto count = batching::count_tokens(samples_, update.positions, index_of);
  update.target_tokens = count.target;
  update.tokens = count.source + count.target;
  update.digest = data::order_digest(order_, update.positions);
  return update;
}

}  // namespace trainer::train
